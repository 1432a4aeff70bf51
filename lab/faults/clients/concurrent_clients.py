"""Clients that send requests while a fault happens, and wait for each response."""

from __future__ import annotations

import asyncio
import math
import resource
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
LONGEST_S = 60.0  # timeout of a request, unless the row has its own
PAUSE_S = 0.02  # s after a request that failed


@dataclass(frozen=True)
class Sample:
    """One request: `status` is 0 if the connection failed or closed without a response.

    `started` and `ended` are in seconds of CLOCK_MONOTONIC.
    """

    started: float
    ended: float
    status: int


@dataclass
class Samples:
    """The requests of steady clients."""

    all: list[Sample] = field(default_factory=list)

    @property
    def statuses(self) -> Counter[int]:
        """The number of requests by status."""
        return Counter(sample.status for sample in self.all)

    @property
    def failed(self) -> int:
        """The number of requests with another status than 200."""
        return sum(sample.status != 200 for sample in self.all)

    def p99_s(self, since: float = 0.0) -> float | None:
        """Return the 99th percentile of the times of requests sent after `since`, failed or not."""
        times = sorted(s.ended - s.started for s in self.all if s.started >= since)
        return times[math.ceil(0.99 * len(times)) - 1] if times else None

    def served_after_s(self, at: float) -> float | None:
        """Return the seconds from `at` to the first response to a request sent after it."""
        ends = [s.ended for s in self.all if s.started >= at and s.status == 200]
        return min(ends) - at if ends else None


def allow_connections(count: int) -> None:
    """Allow `count` connections, here and in the processes that are started after this."""
    needed = 4 * count + 256
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))


@contextmanager
def steady(port: int, count: int, longest_s: float = LONGEST_S) -> Iterator[Samples]:
    """Send requests from `count` clients during the block; each sends one after another.

    A request without a response after `longest_s` has failed.
    """
    samples, stopped = Samples(), threading.Event()

    async def client() -> None:
        while not stopped.is_set():
            started = time.monotonic()
            status = await _status(port, longest_s)
            samples.all.append(Sample(started, time.monotonic(), status))
            if status != 200:
                await asyncio.sleep(PAUSE_S)

    async def every() -> None:
        await asyncio.gather(*(client() for _ in range(count)))

    thread = threading.Thread(target=asyncio.run, args=(every(),))
    thread.start()
    try:
        yield samples
    finally:
        stopped.set()
        thread.join()


def send_at_once(port: int, count: int) -> list[int]:
    """Send `count` requests at the same time, and return their statuses."""
    return asyncio.run(_send_at_once(port, count))


def is_served(port: int) -> bool:
    """Whether a request has a response of status 200."""
    return send_at_once(port, 1) == [200]


async def _send_at_once(port: int, count: int) -> list[int]:
    return await asyncio.gather(*(_status(port) for _ in range(count)))


async def _status(port: int, longest_s: float = LONGEST_S) -> int:
    try:
        async with asyncio.timeout(longest_s):
            return await get_status(port)
    except (OSError, TimeoutError):
        return 0


async def get_status(port: int) -> int:
    """Return the status of one request; 0 if the connection closed without one. Raise OSError."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        return int(head.split()[1])
    except asyncio.IncompleteReadError:
        return 0
    finally:
        writer.close()
