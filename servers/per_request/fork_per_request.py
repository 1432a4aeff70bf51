"""A process per request: socketserver forks one for each, a copy of the server with its own GIL."""

from socketserver import ForkingMixIn
from typing import Any

from offload.serving.applications import http_server, responses
from offload.serving.lifecycle import request_child
from offload.serving.metrics import task_clock
from offload.serving.pools import pool_workers

HTTP_SERVER = "http.server with HTTP/1.0"
STRATEGY = "processes"
EXTERNAL_WORKERS = "socketserver"


def serve(task: str, port: int, *, workers: int = 40, backlog: int = 1024) -> None:
    """Run each request's task in a forked child, at most `workers` at once (default: 40).

    The child inherits the server's imported modules, sends the response and exits. Further requests
    wait in the listen queue.
    """
    child = request_child.RequestChild()

    class Server(ForkingMixIn, http_server.Server):
        max_children = workers

        def process_request(self, request: Any, client_address: Any) -> None:
            self.collect_children()  # waits while `workers` children are running
            with child.forked():
                super().process_request(request, client_address)  # forks; the child exits here

        def finish_request(self, request: Any, client_address: Any) -> None:
            child.set_up()
            super().finish_request(request, client_address)

    def answer() -> responses.Answer:
        return responses.from_task(task_clock.call(task))

    pool_workers.import_task(task)
    http_server.serve(task, answer, port, backlog, Server)
