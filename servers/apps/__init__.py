"""Applications of published benchmarks, in their original frameworks."""
