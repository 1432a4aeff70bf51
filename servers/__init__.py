"""Servers: one file a strategy, with `serve(task, port, ...)`.

`python -m offload.servers` runs one.
"""
