"""The server dask with clusters of its own, of others, and on hosts that are reached by SSH."""
