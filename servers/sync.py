"""Plain sync: one request at a time; all others wait in the listen queue."""

from offload.serving.applications import http_server, responses
from offload.serving.metrics import task_clock

HTTP_SERVER = "http.server with HTTP/1.0"
NUMBER = 1


def serve(task: str, port: int, *, backlog: int = 5) -> None:  # the standard library's default
    """Accept a connection, run the task and respond, all in one thread."""

    def answer() -> responses.Answer:
        return responses.from_task(task_clock.call(task))

    http_server.serve(task, answer, port, backlog)
