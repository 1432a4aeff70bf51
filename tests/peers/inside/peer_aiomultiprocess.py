"""Run aiomultiprocess's tests of its pool on ours: a coroutine runs to its end in a worker."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable
from typing import Any

from peer_pool import PipePool, forbid

Function = Callable[..., Coroutine[Any, Any, Any]]


class PoolResult:
    """The results of a map, awaited together or iterated in their order."""

    def __init__(self, calls: list[asyncio.Future[Any]]) -> None:
        self._calls = calls

    def __await__(self) -> Generator[Any, None, list[Any]]:
        return asyncio.gather(*self._calls).__await__()

    async def __aiter__(self) -> AsyncIterator[Any]:
        for each in self._calls:
            yield await each


class Pool:
    """Our pool behind the methods of aiomultiprocess's; it starts with the first call."""

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int = 0,
        loop_initializer: Callable[[], asyncio.AbstractEventLoop] | None = None,
        **_: Any,
    ) -> None:
        self._pool = PipePool(
            processes, initializer, tuple(initargs), max_tasks_per_child=maxtasksperchild or None
        )
        self._run_in_worker = functools.partial(_run_in_worker, loop_initializer)
        self._start: asyncio.Task[Any] | None = None
        self._is_running = True

    async def __aenter__(self) -> Pool:
        self._start = asyncio.ensure_future(self._pool.start())
        await self._start
        return self

    async def __aexit__(self, *_: object) -> None:
        self.terminate()
        await self.join()

    @property
    def process_count(self) -> int:
        return self._pool._config.workers

    @property
    def processes(self) -> list[int]:
        return self._pool._scheduler.manager.pids()

    async def apply(
        self, func: Function, args: Iterable[Any] = (), kwds: dict[str, Any] | None = None
    ) -> Any:
        return await self._call(func, args, kwds)

    def map(self, func: Function, iterable: Iterable[Any]) -> PoolResult:
        return self.starmap(func, ((each,) for each in iterable))

    def starmap(self, func: Function, iterable: Iterable[Iterable[Any]]) -> PoolResult:
        return PoolResult([self._call(func, args) for args in iterable])

    def _call(
        self, func: Function, args: Iterable[Any], kwds: dict[str, Any] | None = None
    ) -> asyncio.Future[Any]:
        if not self._is_running:
            raise RuntimeError("pool is closed")
        return asyncio.ensure_future(self._pool.run(self._run_in_worker, func, args, kwds or {}))

    def close(self) -> None:
        self._is_running = False

    terminate = close

    async def join(self) -> None:
        if self._is_running:
            raise RuntimeError("pool is still open")
        await self._pool.close(0)


def _run_in_worker(
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None,
    func: Function,
    args: Iterable[Any],
    kwds: dict[str, Any],
) -> Any:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(func(*args, **kwds))


def install() -> None:
    """Replace aiomultiprocess's pool."""
    import aiomultiprocess
    from aiomultiprocess import pool

    for kind in (pool.Pool, pool.PoolWorker):
        forbid(kind)
    for module in (aiomultiprocess, pool):
        module.Pool = Pool
        module.PoolResult = PoolResult
