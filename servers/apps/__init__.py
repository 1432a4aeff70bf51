"""Applications of published benchmarks, in the frameworks they were written in."""
