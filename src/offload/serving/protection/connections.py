"""Bounded connections: above a maximum, a new connection is answered with 503 and closed."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from datetime import timedelta

from tornado import gen, util
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError

from offload.serving.protection import deadlines

LINE = b"too many connections\n"
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Retry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(LINE), LINE)
)
MOST_LINGERING = 256  # refused connections that are still open


class BoundedServer(HTTPServer):
    """An HTTPServer with at most `maximum` open connections."""

    maximum = 0
    refused = 0
    _open = 0
    _refusing: set[asyncio.Task[None]]

    def handle_stream(self, stream: IOStream, address: tuple[object, ...]) -> None:
        """Serve a new connection, or refuse it."""
        if self._open < self.maximum:
            self._open += 1
            super().handle_stream(stream, address)
            return
        self.refused += 1
        self._refusing = getattr(self, "_refusing", set())
        if len(self._refusing) >= MOST_LINGERING:
            stream.close()
            return
        task = asyncio.ensure_future(_refuse(stream))
        self._refusing.add(task)
        task.add_done_callback(self._refusing.discard)

    def on_close(self, server_conn: object) -> None:
        """Count a connection that has closed."""
        self._open -= 1
        super().on_close(server_conn)


async def _refuse(stream: IOStream) -> None:
    """Respond, and read the request: unread data would discard the response at the client."""
    try:
        with suppress(StreamClosedError, OSError, util.TimeoutError):
            await stream.write(REFUSAL)
            stream.socket.shutdown(socket.SHUT_WR)
            await gen.with_timeout(
                timedelta(seconds=deadlines.LINGER),
                stream.read_bytes(deadlines.LINGER_BYTES),
                quiet_exceptions=StreamClosedError,
            )
    finally:
        stream.close()
