"""Servers: one file per strategy, with `serve(task, port, ...)`.

`python -m offload.servers` runs one.
"""
