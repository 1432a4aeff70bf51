"""Servers: one file a strategy with `serve(task, port, ...)`, started by `python -m servers`."""
