"""A thread per request: socketserver starts a thread for each one; one shared GIL."""

from socketserver import ThreadingMixIn
from threading import BoundedSemaphore
from typing import Any

from offload.serving.applications import http_server, responses
from offload.serving.metrics import task_clock
from offload.serving.pools import pool_workers

HTTP_SERVER = "http.server with HTTP/1.0"
STRATEGY = "threads"


def serve(task: str, port: int, *, workers: int = 40, backlog: int = 1024) -> None:
    """Run each request's task in a new thread, at most `workers` at once (default: 40).

    http.server's ThreadingHTTPServer uses ThreadingMixIn, too, but without a limit. Here further
    requests wait in the listen queue, as with ForkingMixIn, whose limit is also 40 by default.
    """
    free = BoundedSemaphore(workers)

    class Server(ThreadingMixIn, http_server.Server):
        def process_request(self, request: Any, client_address: Any) -> None:
            free.acquire()
            try:
                super().process_request(request, client_address)  # starts the thread
            except RuntimeError:  # it could not be started: joining it would fail
                self._threads.reap()  # type: ignore[attr-defined]
                free.release()
                raise

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            try:
                super().process_request_thread(request, client_address)
            finally:
                free.release()

    def answer() -> responses.Answer:
        return responses.from_task(task_clock.call(task))

    pool_workers.import_task(task)
    http_server.serve(task, answer, port, backlog, Server)
