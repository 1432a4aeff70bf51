"""Clients that send requests while a fault happens: steady ones, and impatient ones."""

from __future__ import annotations

import asyncio
import math
import random
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
            return await _get(port)
    except (OSError, TimeoutError):
        return 0


@dataclass
class OverloadCounts:
    """The times of good responses, and the numbers of refusals and of clients that gave up."""

    began: float
    good: list[float] = field(default_factory=list)
    refused: int = 0
    gave_up: int = 0

    def rate(self, start: float, end: float) -> float:
        """Return the good responses per second between two times in s since the beginning."""
        times = [t - self.began for t in self.good]
        return sum(start <= t < end for t in times) / (end - start)


def overload(port: int, clients: int, seconds: float, patience: float) -> OverloadCounts:
    """Send requests from `clients` clients, which disconnect when their patience ends."""
    return asyncio.run(_overload(port, clients, seconds, patience))


async def _overload(port: int, clients: int, seconds: float, patience: float) -> OverloadCounts:
    counts = OverloadCounts(began=time.monotonic())
    each = [asyncio.create_task(_impatient(port, counts, patience)) for _ in range(clients)]
    await asyncio.sleep(seconds)
    for client in each:
        client.cancel()
    await asyncio.gather(*each, return_exceptions=True)
    return counts


async def _impatient(port: int, counts: OverloadCounts, patience: float) -> None:
    while True:
        try:
            async with asyncio.timeout(patience):
                status = await _get(port)
        except TimeoutError:
            counts.gave_up += 1
            continue
        except OSError:
            status = 0
        if status == 200:
            counts.good.append(time.monotonic())
        else:
            counts.refused += status == 503
            await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311


async def _get(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        return int(head.split()[1])
    except asyncio.IncompleteReadError:
        return 0
    finally:
        writer.close()
