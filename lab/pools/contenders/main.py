"""The process of a contender, which starts its pool and measures it on request of the parent.

The pool's event loop reads requests from a socket pair, so that between two requests only the pool
itself runs in this process.
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

from lab.pools import mixture
from lab.pools.contenders.adapters import CONTENDERS
from lab.pools.limits import LIMITS
from lab.pools.payloads import call, nap
from lab.pools.slices import children, measure_slice, memory

NAP = 0.1  # s: long enough that each worker gets one task
CLOSE_TIMEOUT = 5  # s for the pool to stop; then its processes and this one are killed


def main() -> None:
    """Serve requests until the parent closes the connection or ends."""
    name, workers, descriptor = sys.argv[1:]
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(os.getpid(), signal.SIGKILL))
    line: Connection[Any, Any] = Connection(int(descriptor))
    os.register_at_fork(
        after_in_child=line.close
    )  # else the parent does not see that this process ended
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_serve(_Contender(name, int(workers)), line))


async def _serve(contender: _Contender, line: Connection[Any, Any]) -> None:
    """Respond to each request with (None, result), or with (error message, None)."""
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    requests: asyncio.Queue[Any] = asyncio.Queue()
    handlers: dict[str, Callable[..., Awaitable[Any]]]
    handlers = {"start": contender.start, "slice": contender.slice, "mixture": contender.mixture}

    def read() -> None:
        try:
            requests.put_nowait(line.recv())
        except (OSError, EOFError):
            loop.remove_reader(line.fileno())
            signal.alarm(CLOSE_TIMEOUT)
            assert this is not None
            this.cancel()

    loop.add_reader(line.fileno(), read)
    try:
        while True:
            # `requests` is a queue here, not the package
            what, *details = await requests.get()  # nosec B113
            try:
                response: tuple[str | None, Any] = None, await handlers[what](*details)
            except Exception as error:  # noqa: BLE001 - a pool may raise anything
                response = str(error) or repr(error), None
            with contextlib.suppress(OSError):  # `read` detects that the parent has ended
                line.send(response)
    finally:
        await contender.close()


class _Contender:
    def __init__(self, name: str, workers: int) -> None:
        self._name, self._workers = name, workers
        self._pool: Any = None
        self._pids: set[int] = set()

    async def start(self) -> dict[str, object]:
        """Start the pool; return its start time in s, its memory in MiB and this process's pid."""
        started, waited_s = time.perf_counter(), 0.0
        pool = {**CONTENDERS, **LIMITS}[self._name]()
        await pool.start(self._workers)
        self._pool = pool
        if self._name in CONTENDERS:
            await asyncio.gather(*(pool.run(nap, NAP) for _ in range(self._workers)))
            waited_s = NAP
        took = max(0.0, time.perf_counter() - started - waited_s)
        self._pids = children()
        return {"start_s": took, "memory_mib": memory(self._pids), "pid": os.getpid()}

    async def slice(
        self, size: str, concurrency: int, seconds: float
    ) -> tuple[array[float], float, float | None]:
        """Measure a slice: see `slices.measure_slice`."""
        return await measure_slice(self._pool, call(size), concurrency, seconds, self._pids)

    async def mixture(self, seconds: float, seed: int) -> array[float]:
        """Measure a mixture: see `mixture.measure_mixture`."""
        return await mixture.measure_mixture(self._pool, self._workers, seconds, seed)

    async def close(self) -> None:
        """Stop the pool, if it was started."""
        if self._pool is not None:
            await self._pool.close()
