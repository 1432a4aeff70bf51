"""A user: one client, which asks, waits for the answer, and asks again."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, cast

import httptools

if TYPE_CHECKING:
    from loads._users import Users


class User(asyncio.Protocol):
    """One user: at most one request in flight, which `began` at a time (None: none is)."""

    def __init__(self, users: Users) -> None:
        self.users = users
        self.began: float | None = None
        self._answers = 0
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._head = b""

    def ask(self) -> None:
        """Send the next request, on the connection kept or on a new one."""
        if not self.users.may_ask(self._answers):
            self.users.rest()
            return
        self.began = perf_counter()
        if self._transport is None:
            self._connecting = self.users.loop.create_task(self._connect())
        else:
            self._send()

    def give_up(self) -> None:
        """End a request that is over its time."""
        self._fail("timeout")

    def leave(self) -> None:
        """Drop the connection, whatever is on it."""
        self.began = None
        self._drop()

    async def _connect(self) -> None:
        users, kind = self.users, None
        try:
            await users.loop.create_connection(
                lambda: self, users.host, users.port, ssl=users.secure
            )
        except ConnectionRefusedError:
            kind = "refused"
        except ConnectionError:
            kind = "reset"
        except OSError:
            kind = "other"
        self._connecting = None
        if kind is not None:
            self._fail(kind)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        assert self._transport is not None
        self._head = b""
        self._parser = httptools.HttpResponseParser(self)
        self._transport.write(self.users.request)

    def data_received(self, data: bytes) -> None:
        if self.began is None:  # more than was asked for
            self._drop()
            return
        if b"\r\n\r\n" not in self._head:  # a head may come in several pieces
            self._head += data
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if self.began is not None:
                self._fail("other")

    def on_message_complete(self) -> None:
        """Take the answer, as httptools calls it."""
        status = self._parser.get_status_code()
        if status < 200 or self.began is None:
            return
        if not (self.users.load.keep_alive and self._parser.should_keep_alive()):
            self._drop()
        self._finish(status)

    def connection_lost(self, error: Exception | None) -> None:
        if self._transport is None:  # we dropped it
            return
        self._transport = None
        if self.began is None:
            return
        if error is None and self._ends_by_close():
            self._finish(self._parser.get_status_code())
        else:
            self._fail("reset")

    def _ends_by_close(self) -> bool:
        """Say whether the answer so far has a whole head that names no length."""
        head, end, _ = self._head.partition(b"\r\n\r\n")
        lower = head.lower()
        return bool(end) and b"content-length:" not in lower and b"chunked" not in lower

    def _finish(self, status: int) -> None:
        assert self.began is not None
        seconds, self.began = perf_counter() - self.began, None
        self._answers += 1
        if status < 400:
            self.users.complete(seconds)
        else:
            self.users.fail("4xx" if status < 500 else "5xx")
        self._ask_soon()

    def _fail(self, kind: str) -> None:
        self.began = None
        self._drop()
        self.users.fail(kind)
        self._ask_soon()

    def _ask_soon(self) -> None:
        self.users.loop.call_soon(self.ask)

    def _drop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
