"""Users: clients in a closed loop, each of which asks again as soon as it has its answer."""

from __future__ import annotations

import asyncio
import os
import resource
import ssl
from array import array
from collections import Counter
from time import perf_counter
from urllib.parse import urlsplit

import httptools

from loads import Load

IN_A_ROW = 1000  # failures without one completed request between, after which nothing will follow
SWEEP = 0.1  # s between two looks for requests that are over their time
WARM_UP = 85.0  # s at most until every user of a warm-up has been answered


class Users:
    """All users of one load, and what they saw.

    `times` are the seconds that completed requests took, `failed` the others by kind. The load is
    over when `run` returns; `problem` says why it ended early.
    """

    def __init__(self, load: Load) -> None:
        parts = urlsplit(load.url)
        self.load = load
        self.host = parts.hostname or ""
        self.secure = _context() if parts.scheme == "https" else None
        self.port = parts.port or (443 if self.secure else 80)
        self.request = _request(parts.netloc, parts.path, parts.query, load.keep_alive)
        self.times = array("d")
        self.failed: Counter[str] = Counter()
        self.problem: str | None = None
        self.elapsed = 0.0
        self._left = load.requests
        self._in_a_row = 0

    async def run(self) -> None:
        """Ask until the time is over, or all requests are answered, or every user has enough."""
        self.loop = asyncio.get_running_loop()
        self._over = self.loop.create_future()
        _allow_descriptors(self.load.users)
        users = [_User(self) for _ in range(self.load.users)]
        self._busy = len(users)
        self.began = perf_counter()
        if self.load.each is not None:
            self.loop.call_later(WARM_UP, self._end, f"not all users answered in {WARM_UP:.0f} s")
        elif self.load.seconds is not None:
            self.loop.call_later(self.load.seconds, self._end, None)
        sweep = asyncio.create_task(self._sweep(users))
        for user in users:
            user.ask()
        await self._over
        sweep.cancel()
        self.elapsed = perf_counter() - self.began
        self.failed["unfinished"] += sum(user.began is not None for user in users)
        for user in users:
            user.leave()

    def may_ask(self, answers: int) -> bool:
        """Take one request of those that are left, for a user that has had so many answers."""
        if self._over.done():
            return False
        if self.load.each is not None:
            over = perf_counter() - self.began >= (self.load.seconds or 0.0)
            return answers < self.load.each or not over
        if self._left is None:
            return True
        self._left -= 1
        return self._left >= 0

    def complete(self, seconds: float) -> None:
        """Count a request that was answered with a status below 400."""
        self.times.append(seconds)
        self._in_a_row = 0

    def fail(self, kind: str) -> None:
        """Count a request that failed."""
        self.failed[kind] += 1
        self._in_a_row += 1
        if self._in_a_row >= IN_A_ROW and not self._over.done():
            self._end(f"builtin gave up after {IN_A_ROW} failures in a row ({kind})")

    def rest(self) -> None:
        """Have one user less that asks; the load is over when none is left."""
        self._busy -= 1
        if self._busy == 0:
            self._end(None)

    def _end(self, problem: str | None) -> None:
        if not self._over.done():
            self.problem = problem
            self._over.set_result(None)

    async def _sweep(self, users: list[_User]) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            late = perf_counter() - self.load.timeout
            for user in users:
                if user.began is not None and user.began < late:
                    user.give_up()


class _User(asyncio.Protocol):
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
        if self._connecting is not None:
            self._connecting.cancel()
        self._drop()

    async def _connect(self) -> None:
        users = self.users
        try:
            await users.loop.create_connection(
                lambda: self, users.host, users.port, ssl=users.secure
            )
        except ConnectionRefusedError:
            self._fail("refused")
        except ConnectionError:
            self._fail("reset")
        except OSError:
            self._fail("other")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]
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
        if not self._head:
            self._head = data
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


def _request(host: str, path: str, query: str, keep_alive: bool) -> bytes:
    target = (path or "/") + (f"?{query}" if query else "")
    connection = "keep-alive" if keep_alive else "close"
    return (
        f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: builtin\r\nAccept: */*\r\n"
        f"Connection: {connection}\r\n\r\n"
    ).encode()


def _context() -> ssl.SSLContext:
    """Verify against the system's authorities and, when UPSTREAM_CA names one, the upstream's."""
    context = ssl.create_default_context()
    if authority := os.environ.get("UPSTREAM_CA"):
        context.load_verify_locations(authority)
    return context


def _allow_descriptors(users: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = users + 64
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
