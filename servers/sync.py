"""Plain sync: one request at a time, everybody else waits in the listen queue."""

from offload.serving.applications import http_server

NUMBER = 1


def serve(task: str, port: int, *, backlog: int = 5) -> None:
    """Accept, work and answer in one thread, in turn; 5 is the standard library's own backlog."""
    http_server.serve(task, port, backlog)
