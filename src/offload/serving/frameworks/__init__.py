"""External frameworks and servers, configured as in the published benchmarks."""
