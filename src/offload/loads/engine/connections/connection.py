"""A connection, which sends one request at a time and reconnects if needed."""

from __future__ import annotations

import asyncio
import ssl
from time import monotonic
from typing import TYPE_CHECKING, cast

import httptools

from offload.loads.engine.connections.body import ends_by_close

if TYPE_CHECKING:
    from offload.loads.engine.connections.clients import Clients

KINDS = (
    (ConnectionRefusedError, "refused"),
    (ConnectionError, "reset"),
    (ssl.SSLError, "tls"),
    (OSError, "other"),
)
NO_HTTP, WRONG_BODY = -1, -2  # replace the HTTP status of invalid responses
FAILURES = {NO_HTTP: "other", WRONG_BODY: "body"}
MALFORMED = (httptools.HttpParserError, httptools.HttpParserUpgrade)


class Connection(asyncio.Protocol):
    """A connection with at most one request in flight.

    `started` is the start time of the request in flight (None: no request). `sent` is the time at
    which it was written to a connected socket (None: not yet connected).

    `requests` counts the requests, `responses` the responses to them.

    `_good` is the last successful response that arrived in one piece and kept the connection open.
    The path of a request determines the tool's overhead: a request is one write, and the same clock
    reading ends a request and starts the next one.
    """

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.started: float | None = None
        self.sent: float | None = None
        self.requests = self.responses = 0
        self._request = clients.target.request
        self._keep_alive = clients.load.keep_alive
        self._note_started = clients.samples.started.append
        self._note_sent = clients.samples.sent.append
        self._note_ended = clients.samples.ended.append
        self._next = clients.next
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._status = 0  # of a complete response
        self._keep = False
        self._head = b""

    def send(self, started: float, now: float | None = None) -> None:
        """Send a request that started at `started`; open the connection if it is closed.

        `now` is the time at which it is sent; None if that is `started`.
        """
        self.started = started
        self.requests += 1
        if self._transport is not None:
            self.sent = started if now is None else now
            self._head = b""
            self._write(self._request)
        else:
            self.sent = None
            self._connecting = self.clients.loop.create_task(self._connect())

    def time_out(self) -> None:
        """Fail a request that exceeded its timeout."""
        self._fail("timeout")

    def close(self) -> None:
        """Drop the connection and any request on it."""
        self.started = None
        self._drop()

    async def _connect(self) -> None:
        target, loop = self.clients.target, self.clients.loop
        try:
            await loop.create_connection(lambda: self, target.host, target.port, ssl=target.secure)
        except OSError as error:
            self._connecting = None
            self._fail(next(kind for error_type, kind in KINDS if isinstance(error, error_type)))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._connecting = cast(asyncio.Transport, transport), None
        self.sent = monotonic()
        self._write = self._transport.write
        self._status, self._head, self._good = 0, b"", b""
        self._parser = httptools.HttpResponseParser(self)
        self._feed = self._parser.feed_data
        self._write(self._request)

    def data_received(self, data: bytes) -> None:
        started = self.started
        if data == self._good and started is not None and not self._head:
            self._finish(200, started)  # equal bytes need not be parsed again
            return
        try:
            self._feed(data)
        except MALFORMED:
            self._keep = False
            self._status = self._status or NO_HTTP
        status = self._status
        if started is None:  # data without a request
            self._drop()
        elif status:
            self._status = 0
            if not self._keep:
                self._drop()
            elif 0 < status < 400 and not self._head:
                self._good = data
            self._finish(status, started)
        elif b"\r\n\r\n" not in self._head:  # a head may come in several pieces
            self._head += data

    def on_message_complete(self) -> None:
        """Record a complete response (called by httptools); a second one closes the connection."""
        status = self._parser.get_status_code()
        if self._status:
            self._keep = False
        elif status >= 200:
            self._status = self._checked(status)
            self._keep = self._keep_alive and self._parser.should_keep_alive()

    def _checked(self, status: int) -> int:
        """Return the status of a complete response; subclasses may return one of FAILURES."""
        return status

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is None:  # closed by this side
            return
        self._transport = None
        if self.started is None:
            return
        if error is None and ends_by_close(self._head):
            self._finish(self._checked(self._parser.get_status_code()), self.started)
        else:
            self._fail("tls" if isinstance(error, ssl.SSLError) else "reset")

    def _finish(self, status: int, started: float) -> None:
        now = monotonic()
        self.started = None
        self.responses += 1
        if 0 < status < 400:
            self._note_started(started)
            self._note_sent(self.sent or started)
            self._note_ended(now)
        else:
            kind = FAILURES.get(status) or ("4xx" if status < 500 else "5xx")
            self.clients.fail(kind, started, now)
        self._next(self, now)

    def _fail(self, kind: str) -> None:
        started, now = cast(float, self.started), monotonic()
        self.started = None
        self._drop()
        self.clients.fail(kind, started, now)
        self._next(self, now)

    def _drop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
