"""The standard library's HTTP server: HTTP/1.0, one thread, one connection at a time."""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer

from offload import tasks
from offload.serving.applications import responses
from offload.serving.lifecycle import log, ports, readiness
from offload.serving.lifecycle.stop_signal import stop
from offload.serving.metrics.task_clock import TimedResult


def serve(task: str, run: Callable[[], TimedResult], port: int, backlog: int) -> None:
    """Respond with `run()` until a stop signal, then to the requests in the listen queue."""
    tasks.resolve(task)

    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # s for a client to send its request

        def do_GET(self) -> None:
            answer = responses.for_path(self.path) or responses.from_task(run())
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *arguments: object) -> None:
            """Log nothing: task failures are logged separately."""

    with ports.binding(port):
        server = _Server(("127.0.0.1", port), Handler, backlog)
    with server:
        stop.set_callback(lambda: _thread.start_new_thread(server.shutdown, ()))
        readiness.announce(server.server_address[1])
        server.serve_forever(poll_interval=0.05)
        server.timeout = 0
        for _ in range(backlog + 1):  # the kernel queues one more than the backlog
            server.handle_request()


class _Server(TCPServer):
    allow_reuse_address = True

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], backlog: int
    ) -> None:
        self.request_queue_size = backlog
        super().__init__(address, handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that disconnected early (the client counts it); log other errors."""
        error = sys.exception()
        if not isinstance(error, OSError):
            log.failure(f"a request raised {error!r}")
