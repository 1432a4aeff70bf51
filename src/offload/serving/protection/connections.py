"""Connections of Tornado: nothing is read from a closed one, and their number can be bounded.

Above a maximum, a new connection is answered with 503 and closed. While the listen queue has a
backlog, a connection whose client has left is closed at once: after an overload there are thousands
of these. A client that does not receive its response is disconnected.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from datetime import timedelta
from typing import Any

from tornado import gen, util
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPInputError, HTTPMessageDelegate
from tornado.iostream import IOStream, StreamClosedError
from tornado.web import RequestHandler

from offload.serving.lifecycle.drain import ListeningSocket
from offload.serving.protection import limits
from offload.serving.protection.admission import has_closed

LINE = b"too many connections\n"
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Retry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(LINE), LINE)
)
MOST_LINGERING = 256  # refused connections that are still open


class Server(HTTPServer):
    """An HTTPServer that starts no request of a connection that has been closed.

    Tornado itself runs a request that arrived together with the one that ended the connection.
    """

    def start_request(self, server_conn: object, request_conn: Any) -> HTTPMessageDelegate:
        """Return the receiver of the next request of a connection."""
        if request_conn.stream.closed():
            return _Closed()
        return super().start_request(server_conn, request_conn)


class _Closed(HTTPMessageDelegate):
    def headers_received(self, start_line: object, headers: object) -> None:
        raise HTTPInputError("the connection has been closed")


class LimitedHandler(RequestHandler):
    """Disconnects a client that has not received its response after limits.RESPONSE."""

    def finish(self, chunk: str | bytes | dict[str, Any] | None = None) -> asyncio.Future[None]:
        """Send the response; Tornado calls this also for the errors that it responds to itself."""
        connection: Any = self.request.connection
        sent = super().finish(chunk)
        if not sent.done():
            loop = asyncio.get_running_loop()
            timer = loop.call_later(limits.RESPONSE, connection.stream.close)
            sent.add_done_callback(lambda _: timer.cancel())
        return sent


class BoundedServer(Server):
    """A server with at most `maximum` open connections."""

    maximum = 0
    listening: ListeningSocket
    _refusing: set[asyncio.Task[None]]

    def handle_stream(self, stream: IOStream, address: tuple[object, ...]) -> None:
        """Serve a new connection, or refuse it.

        Behind a backlog, close it if its client has already left. Else this is not checked: if no
        worker is free, its task is dropped later.
        """
        if self.listening.is_backlogged and has_closed(stream.socket):
            stream.close()
            return
        if len(self._connections) < self.maximum:
            super().handle_stream(stream, address)
            return
        self._refusing = getattr(self, "_refusing", set())
        if len(self._refusing) >= MOST_LINGERING:
            stream.close()
            return
        task = asyncio.ensure_future(_refuse(stream))
        self._refusing.add(task)
        task.add_done_callback(self._refusing.discard)


async def _refuse(stream: IOStream) -> None:
    """Respond, and read the request: unread data would discard the response at the client."""
    try:
        with suppress(StreamClosedError, OSError, util.TimeoutError):
            await stream.write(REFUSAL)
            stream.socket.shutdown(socket.SHUT_WR)
            await gen.with_timeout(
                timedelta(seconds=limits.LINGER),
                stream.read_bytes(limits.LINGER_BYTES),
                quiet_exceptions=StreamClosedError,
            )
    finally:
        stream.close()
