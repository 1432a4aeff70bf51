"""Plain sync: one request at a time, everybody else waits in the listen queue."""

from offload.servers import _plain

NUMBER = 1


def serve(task: str, port: int, *, backlog: int = 5) -> None:
    """Accept, work and answer in one thread, in turn; 5 is the standard library's own backlog."""
    _plain.serve(task, port, backlog)
