"""A connection: one request at a time on it, opened again when it is needed."""

from __future__ import annotations

import asyncio
import ssl
from time import monotonic
from typing import TYPE_CHECKING, cast

import httptools

if TYPE_CHECKING:
    from loads._clients import Clients

MALFORMED = (httptools.HttpParserError, httptools.HttpParserUpgrade)


class Connection(asyncio.Protocol):
    """At most one request in flight, which `began` at a time (None: none is).

    One clock reading ends a request and begins the next, and a request is one write: this is the
    path that decides what the tool costs.
    """

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.began: float | None = None
        self.answers = 0
        self._request = clients.target.request
        self._keep_alive = clients.load.keep_alive
        self._note_began = clients.samples.began.append
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
        if self._transport is None:
            self._connecting = self.clients.loop.create_task(self._connect())
        else:
            self._write(self._request)

    def give_up(self) -> None:
        """End a request that is over its time."""
        self._fail("timeout")

    def leave(self) -> None:
        """Drop the connection, whatever is on it."""
        self.began = None
        self._drop()

    async def _connect(self) -> None:
        target, kind = self.clients.target, None
        try:
            await self.clients.loop.create_connection(
                lambda: self, target.host, target.port, ssl=target.secure
            )
        except ConnectionRefusedError:
            kind = "refused"
        except ConnectionError:
            kind = "reset"
        except ssl.SSLError:
            kind = "tls"
        except OSError:
            kind = "other"
        self._connecting = None
        if kind is not None:
            self._fail(kind)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._write = self._transport.write
        self._status, self._head = 0, b""
        self._parser = httptools.HttpResponseParser(self)
        self._feed = self._parser.feed_data
        self._write(self._request)

    def data_received(self, data: bytes) -> None:
        try:
            self._feed(data)
        except MALFORMED:
            self._keep = False
            if not self._status:
                self._status = -1
        status = self._status
        if not status:
            if b"\r\n\r\n" not in self._head:  # a head may come in several pieces
                self._head += data
            return
        self._status = 0
        if not self._keep or self.began is None:  # or it is more than was asked for
            self._drop()
        if self.began is not None:
            self._finish(status)

    def on_message_complete(self) -> None:
        """Take the answer, as httptools calls it; a second one is more than was asked for."""
        parser = self._parser
        status = parser.get_status_code()
        if status >= 200:
            self._keep = self._keep_alive and not self._status and parser.should_keep_alive()
            self._status = self._status or status

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is None:  # we dropped it
            return
        self._transport = None
        if self.began is None:
            return
        if error is None and self._ends_by_close():
            self._finish(self._parser.get_status_code())
        else:
            self._fail("tls" if isinstance(error, ssl.SSLError) else "reset")

    def _ends_by_close(self) -> bool:
        """Say whether the answer so far has a whole head that names no length."""
        head, end, _ = self._head.partition(b"\r\n\r\n")
        lower = head.lower()
        return bool(end) and b"content-length:" not in lower and b"chunked" not in lower

    def _finish(self, status: int) -> None:
        began, now = cast(float, self.began), monotonic()
        self.began = None
        self.answers += 1
        self._head = b""
        if 0 < status < 400:
            self._note_began(began)
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
