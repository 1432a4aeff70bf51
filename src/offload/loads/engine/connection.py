"""A connection: one request at a time on it, opened again when it is needed."""

from __future__ import annotations

import asyncio
import ssl
from time import monotonic
from typing import TYPE_CHECKING, cast

import httptools

from offload.loads.engine.body import ends_by_close

if TYPE_CHECKING:
    from offload.loads.engine.clients import Clients

KINDS = (
    (ConnectionRefusedError, "refused"),
    (ConnectionError, "reset"),
    (ssl.SSLError, "tls"),
    (OSError, "other"),
)
MALFORMED = (httptools.HttpParserError, httptools.HttpParserUpgrade)


class Connection(asyncio.Protocol):
    """At most one request in flight, which `began` at a time (None: none is).

    It was `sent` when it was connected, which is None as long as it is not.

    `_good` is the last answer that came whole and left all as it was. One clock reading
    ends a request and begins the next, and a request is one write: this path is the tool's cost.
    """

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.began: float | None = None
        self.sent: float | None = None
        self.answers = 0
        self._request = clients.target.request
        self._keep_alive = clients.load.keep_alive
        self._note_began = clients.samples.began.append
        self._note_sent = clients.samples.sent.append
        self._note_ended = clients.samples.ended.append
        self._next = clients.next
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._status = 0  # of the answer that is complete
        self._keep = False
        self._head = b""

    def ask(self, began: float) -> None:
        """Send a request that began just now, on the connection kept or on a new one."""
        self.began = began
        if self._transport is not None:
            self.sent = began
            self._head = b""
            self._write(self._request)
        else:
            self.sent = None
            self._connecting = self.clients.loop.create_task(self._connect())

    def give_up(self) -> None:
        """End a request that is over its time."""
        self._fail("timeout")

    def leave(self) -> None:
        """Drop the connection, whatever is on it."""
        self.began = None
        self._drop()

    async def _connect(self) -> None:
        target, loop = self.clients.target, self.clients.loop
        try:
            await loop.create_connection(lambda: self, target.host, target.port, ssl=target.secure)
        except OSError as error:
            self._connecting = None
            self._fail(next(kind for of, kind in KINDS if isinstance(error, of)))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._connecting = cast(asyncio.Transport, transport), None
        self.sent = monotonic()
        self._write = self._transport.write
        self._status, self._head, self._good = 0, b"", b""
        self._parser = httptools.HttpResponseParser(self)
        self._feed = self._parser.feed_data
        self._write(self._request)

    def data_received(self, data: bytes) -> None:
        began = self.began
        if data == self._good and began is not None and not self._head:
            self._finish(200, began)  # the parser would say the same of the same bytes
            return
        try:
            self._feed(data)
        except MALFORMED:
            self._keep = False
            self._status = self._status or -1
        status = self._status
        if began is None:  # more than was asked for
            self._drop()
        elif status:
            self._status = 0
            if not self._keep:
                self._drop()
            elif status < 400 and not self._head:
                self._good = data
            self._finish(status, began)
        elif b"\r\n\r\n" not in self._head:  # a head may come in several pieces
            self._head += data

    def on_message_complete(self) -> None:
        """Take the answer, as httptools calls it; a second one is more than was asked for."""
        status = self._parser.get_status_code()
        if self._status:
            self._keep = False
        elif status >= 200:
            self._status = status
            self._keep = self._keep_alive and self._parser.should_keep_alive()

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is None:  # we dropped it
            return
        self._transport = None
        if self.began is None:
            return
        if error is None and ends_by_close(self._head):
            self._finish(self._parser.get_status_code(), self.began)
        else:
            self._fail("tls" if isinstance(error, ssl.SSLError) else "reset")

    def _finish(self, status: int, began: float) -> None:
        now = monotonic()
        self.began = None
        self.answers += 1
        if 0 < status < 400:
            self._note_began(began)
            self._note_sent(self.sent or began)
            self._note_ended(now)
        else:
            kind = "other" if status < 0 else "4xx" if status < 500 else "5xx"
            self.clients.fail(kind, began, now)
        self._next(self, now)

    def _fail(self, kind: str) -> None:
        began, now = cast(float, self.began), monotonic()
        self.began = None
        self._drop()
        self.clients.fail(kind, began, now)
        self._next(self, now)

    def _drop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
