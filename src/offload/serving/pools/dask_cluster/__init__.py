"""The cluster of the server `dask`: where it runs, its connection, and what its workers do."""
