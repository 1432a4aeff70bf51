"""Plain sync: one request at a time, everybody else waits in the listen queue."""

from offload.serving.applications import http_server
from offload.serving.metrics import task_clock

NUMBER = 1


def serve(task: str, port: int, *, backlog: int = 5) -> None:
    """Accept, work and answer in one thread; 5 is the standard library's own backlog."""

    def run() -> task_clock.Timed:
        return task_clock.call(task)

    http_server.serve(task, run, port, backlog)
