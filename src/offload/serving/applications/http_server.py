"""The standard library's HTTP server: HTTP/1.0, one request per connection."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer

from offload import tasks
from offload.serving.applications import responses
from offload.serving.lifecycle import log, ports, readiness
from offload.serving.lifecycle.stop_signal import stop


class Server(TCPServer):
    """Accepts and handles connections in one thread; mix-ins may use other threads or processes."""

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


class _Stopped(Exception):
    """The stop signal has arrived."""


def serve(
    task: str,
    answer: Callable[[], responses.Answer],
    port: int,
    backlog: int,
    server_class: type[Server] = Server,
) -> None:
    """Respond with `answer()` until a stop signal, then to the requests in the listen queue."""
    tasks.resolve(task)

    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # s for a client to send its request

        def do_GET(self) -> None:
            found = responses.for_path(self.path) or answer()
            self.send_response(found.status)
            self.send_header("Content-Type", found.content_type)
            self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            self.wfile.write(found.body)

        def log_message(self, *arguments: object) -> None:
            """Log nothing: task failures are logged separately."""

    class Stoppable(server_class):  # type: ignore[misc, valid-type]
        def service_actions(self) -> None:
            """Run after each request and each poll. shutdown() would need another thread."""
            super().service_actions()
            if stop.at is not None:
                raise _Stopped

    with ports.binding(port):
        server = Stoppable(("127.0.0.1", port), Handler, backlog)
    with server:
        readiness.announce(server.server_address[1])
        with contextlib.suppress(_Stopped):
            server.serve_forever(poll_interval=0.05)
        server.timeout = 0
        for _ in range(backlog + 1):  # the kernel queues one more than the backlog
            server.handle_request()
