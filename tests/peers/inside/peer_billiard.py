"""Run billiard's tests of its pool on our executor, behind the methods of multiprocessing.Pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import as_completed
from typing import Any

from peer_pool import BrokenWorker, Executor, Future, forbid


class Results:
    """Iterate over results; `next` waits at most a timeout for one."""

    def __init__(self, futures: Iterable[Future[Any]]) -> None:
        self._futures = iter(futures)

    def __iter__(self) -> Results:
        return self

    def __next__(self) -> Any:
        return self.next()

    def next(self, timeout: float | None = None) -> Any:
        return next(self._futures).result(timeout)


class Pool:
    """Our executor behind the methods of billiard's pool; calls are not sent in chunks."""

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> None:
        self._executor = Executor(
            processes,
            initializer=initializer,
            initargs=tuple(initargs),
            max_tasks_per_child=maxtasksperchild,
        )
        self._timeout = timeout
        self.close = self._executor.shutdown
        self.join = self._executor.shutdown
        self.terminate = self._executor.kill_workers

    @property
    def _pool(self) -> list[Any]:
        return list(self._executor._processes.values())

    def did_start_ok(self) -> bool:
        self.apply_async(int).result()
        return bool(self._pool)

    def apply_async(
        self, func: Callable[..., Any], args: Iterable[Any] = (), kwds: Any = None
    ) -> Future[Any]:
        future = self._executor.submit_with(func, *args, kwargs=kwds, timeout=self._timeout)
        future.get = future.result  # type: ignore[attr-defined]
        return future

    def imap(self, func: Callable[..., Any], iterable: Iterable[Any]) -> Results:
        return Results([self._executor.submit(func, each) for each in iterable])

    def imap_unordered(self, func: Callable[..., Any], iterable: Iterable[Any]) -> Results:
        return Results(as_completed([self._executor.submit(func, each) for each in iterable]))


def install() -> None:
    """Replace billiard's pool, and its errors of a worker that died or took too long."""
    from billiard import exceptions, pool

    forbid(pool.Pool)
    pool.Pool = Pool
    exceptions.WorkerLostError = BrokenWorker
    exceptions.TimeLimitExceeded = TimeoutError
