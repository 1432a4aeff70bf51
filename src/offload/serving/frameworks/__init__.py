"""Frameworks and servers of others, set up as the published benchmarks set them up."""
