"""Checks of dask on a cluster: what it costs, and what it promises when processes end."""
