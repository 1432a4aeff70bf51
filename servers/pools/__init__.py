"""Pools other than the standard library's pools of threads and of processes."""
