"""Users: all clients of one load in a closed loop, and what they saw."""

from __future__ import annotations

import asyncio
import os
import resource
import ssl
from array import array
from collections import Counter
from time import perf_counter
from urllib.parse import urlsplit

from loads import Load
from loads._user import User

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
        users = [User(self) for _ in range(self.load.users)]
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

    async def _sweep(self, users: list[User]) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            late = perf_counter() - self.load.timeout
            for user in users:
                if user.began is not None and user.began < late:
                    user.give_up()


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
