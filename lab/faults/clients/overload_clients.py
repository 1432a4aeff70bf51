"""Clients of an overload: each disconnects when its patience ends, and retries after a refusal."""

from __future__ import annotations

import asyncio
import importlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec

from lab.faults.clients import concurrent_clients


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


def overload(port: int, count: int, seconds: float, patience_s: float) -> OverloadCounts:
    """Send requests from `count` clients for `seconds`.

    Each disconnects after `patience_s` without a response, and sends the next request.
    """
    return _runner()(_overload(port, count, seconds, patience_s))


def _runner() -> Callable[..., OverloadCounts]:
    """Return the `run` of uvloop if it is installed: asyncio's takes twice the CPU time."""
    return importlib.import_module("uvloop").run if find_spec("uvloop") else asyncio.run


async def _overload(port: int, count: int, seconds: float, patience_s: float) -> OverloadCounts:
    counts = OverloadCounts(began=time.monotonic())
    each = [asyncio.create_task(_impatient(port, counts, patience_s)) for _ in range(count)]
    await asyncio.sleep(seconds)
    for client in each:
        client.cancel()
    await asyncio.gather(*each, return_exceptions=True)
    return counts


async def _impatient(port: int, counts: OverloadCounts, patience_s: float) -> None:
    while True:
        try:
            async with asyncio.timeout(patience_s):
                status = await concurrent_clients.get_status(port)
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
