"""The turns of a contender, in a process of its own: it begins its pool and measures it when asked.

The parent asks through a socket pair, of which the event loop of the pool reads this end: between
two turns nothing runs here but what the pool itself has to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from array import array
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

from bench.pool_comparison import mixture
from bench.pool_comparison.contenders import CONTENDERS
from bench.pool_comparison.limits import LIMITS
from bench.pool_comparison.payloads import call, nap
from bench.pool_comparison.slices import children, measure, memory

NAP = 0.1  # s: longer than a worker takes to fetch a task, so that each gets one
ENDING = 5  # s for the pool to end before its processes are killed, and this one


def main() -> None:
    """Take turns until the parent lets go or ends."""
    name, workers, descriptor = sys.argv[1:]
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(os.getpid(), signal.SIGKILL))
    line: Connection[Any, Any] = Connection(int(descriptor))
    os.register_at_fork(after_in_child=line.close)  # so that the parent sees when this one ends
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_take(_Turns(name, int(workers)), line))


async def _take(turns: _Turns, line: Connection[Any, Any]) -> None:
    """Answer what is asked: with None and what was found, or with why there is nothing."""
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    asked: asyncio.Queue[Any] = asyncio.Queue()
    known: dict[str, Callable[..., Awaitable[Any]]]
    known = {"begin": turns.begin, "slice": turns.slice, "mixture": turns.mixture}

    def read() -> None:
        try:
            asked.put_nowait(line.recv())
        except (OSError, EOFError):
            loop.remove_reader(line.fileno())
            signal.alarm(ENDING)
            assert this is not None
            this.cancel()

    loop.add_reader(line.fileno(), read)
    try:
        while True:
            what, *details = await asked.get()
            try:
                answer: tuple[str | None, Any] = None, await known[what](*details)
            except Exception as error:  # noqa: BLE001 - a pool may raise anything
                answer = str(error) or repr(error), None
            with contextlib.suppress(OSError):  # a parent that is gone is noticed by `read`
                line.send(answer)
    finally:
        await turns.close()


class _Turns:
    def __init__(self, name: str, workers: int) -> None:
        self._name, self._workers = name, workers
        self._pool: Any = None
        self._pids: set[int] = set()

    async def begin(self) -> dict[str, object]:
        """Begin the pool; give what that took in s, its processes' memory in MiB and this pid."""
        began = time.perf_counter()
        pool = {**CONTENDERS, **LIMITS}[self._name]()
        await pool.start(self._workers)
        self._pool = pool
        if self._name in CONTENDERS:
            await asyncio.gather(*(pool.run(nap, NAP) for _ in range(self._workers)))
        took = max(0.0, time.perf_counter() - began - NAP)
        self._pids = children()
        return {"start_s": took, "memory_mib": memory(self._pids), "pid": os.getpid()}

    async def slice(
        self, size: str, flight: int, seconds: float
    ) -> tuple[array[float], float, float | None]:
        """Measure a slice: see there."""
        return await measure(self._pool, call(size), flight, seconds, self._pids)

    async def mixture(self, seconds: float, seed: int) -> array[float]:
        """Measure a mixture: see there."""
        return await mixture.measure(self._pool, self._workers, seconds, seed)

    async def close(self) -> None:
        """End the pool, where there is one."""
        if self._pool is not None:
            await self._pool.close()
