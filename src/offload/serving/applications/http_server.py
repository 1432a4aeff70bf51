"""The standard library's HTTP server: HTTP/1.0, one request per connection."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from typing import Any

from offload.serving.applications import request_head, request_target, responses
from offload.serving.lifecycle import drain, log, readiness
from offload.serving.lifecycle.stop_signal import stop
from offload.serving.pools import pool_workers
from offload.serving.protection import limits

DROPPED = 8  # lengths of the listen queue whose connections may follow those in it; a guess


class Server(TCPServer):
    """Accepts and handles connections in one thread."""

    allow_reuse_address = True

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], backlog: int
    ) -> None:
        self.request_queue_size = backlog
        super().__init__(address, handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Return a connection and its address; pause if none can be accepted."""
        try:
            connection, address = super().get_request()
        except OSError as error:
            if drain.is_exhausted(error):
                time.sleep(drain.PAUSE)
            raise
        drain.receive_from(connection)
        return connection, address

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that disconnected early (the client counts it); log other errors."""
        error = sys.exception()
        if not isinstance(error, OSError):
            log.failure(f"a request raised {error!r}")


class RequestHandler(BaseHTTPRequestHandler):
    """Reads a request until its deadline, and refuses it or calls do_GET or do_HEAD."""

    raw_requestline: bytes

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.rfile = limits.reader(self.connection)

    def parse_request(self) -> bool:
        """Return whether the request is to be handled; if not, it has been refused by a response.

        This replaces the reading of http.server, which accepts malformed requests.
        """
        self.close_connection = True
        self.command, self.requestline = "", ""
        self.request_version = self.protocol_version  # each response has a status line
        if self.raw_requestline in request_head.EMPTY_LINES:  # one before a request is ignored
            self.raw_requestline = self.rfile.readline(request_head.LONGEST)
            if not self.raw_requestline:
                return False
        try:
            head = request_head.read(self.raw_requestline, self.rfile)
        except request_head.BadHead as error:
            self.send_error(error.status, error.reason)
            return False
        self.command = head.method
        self.path, host = request_target.split(head.target)
        self.request_version = head.version
        if head.length > limits.BODY:
            self.send_error(413)
            return False
        # A body that is not read would let the kernel discard the response.
        if len(self.rfile.read(head.length)) < head.length:
            self.send_error(400, "The body is not complete")
            return False
        refused = responses.refusal(head.method, host or head.fields.get("host"))
        if refused is not None:
            self.respond(refused)
        return refused is None

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse the request, which may not have arrived completely."""
        super().send_error(code, message, explain)
        self._linger()

    def _linger(self) -> None:
        """Read what the client still sends, for 1 s: unread data would discard the response."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            until, left = time.monotonic() + limits.LINGER, limits.LINGER_BYTES
            while left > 0 and (seconds := until - time.monotonic()) > 0:
                self.connection.settimeout(seconds)
                if not (received := self.connection.recv(left)):
                    return
                left -= len(received)

    def respond(self, answer: responses.Answer) -> None:
        """Send a response; a client that receives it slowly is cut off."""
        self.connection.settimeout(limits.RESPONSE if stop.at is None else drain.SENDING)
        self.send_response(answer.status)
        for name, value in answer.headers():
            self.send_header(name.title(), value)
        self.end_headers()
        self.wfile.write(answer.content(self.command))

    def log_message(self, *arguments: object) -> None:
        """Log nothing: task failures are logged separately."""


class _Stopped(Exception):
    """The stop signal has arrived."""


def serve(task: str, answer: Callable[[], responses.Answer], port: int, backlog: int) -> None:
    """Respond with `answer()` until a stop signal, then to the requests in the listen queue."""
    pool_workers.import_in_time(task)

    class Handler(RequestHandler):
        def do_GET(self) -> None:
            self.respond(responses.answer_uri(self.path) or answer())

        def do_HEAD(self) -> None:
            self.do_GET()  # `respond` leaves the body out

    class Stoppable(Server):
        def service_actions(self) -> None:
            """Run after each request and each poll. shutdown() would need another thread."""
            super().service_actions()
            stop.restore()
            if stop.at is not None:
                raise _Stopped

    with readiness.binding(port):
        server = Stoppable((readiness.address(), port), Handler, backlog)
    with server:
        readiness.announce(server.server_address[1])
        with contextlib.suppress(_Stopped):
            server.serve_forever(poll_interval=0.05)
        handshake_s = drain.refuse_new(server.socket)
        server.timeout = 0
        for _ in range(DROPPED * (backlog + 1)):  # the kernel queues one more than the backlog
            if not drain.is_waiting(server.socket, handshake_s):
                break
            server.handle_request()
