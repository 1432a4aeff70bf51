"""Experiments: which trials are run, in which order, and when there are enough of them."""
