"""pebble's process pool, started and stopped like the other servers' pools."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

import pebble

from offload.errors import UserError
from offload.serving.lifecycle import readiness
from offload.serving.metrics import probe
from offload.serving.pools import pool_workers
from offload.serving.pools.recovery import PoolUnavailable

TERM_TIMEOUT = 0.1  # s until pebble kills a worker; ours ignore the SIGTERM that it sends first
LOCK_TIMEOUT = 5.0  # s until a worker gives up waiting for pebble's lock; pebble's own is 60 s

T = TypeVar("T")


class Pool:
    """A pebble.ProcessPool: a worker that dies in a task is replaced, the task retried once.

    If a worker dies while no task runs, pebble ends the whole pool. Then this one creates another.
    If a worker is killed while it holds the lock of pebble's pipes, the others wait for this lock
    twice and end, so no task is done for 2 x LOCK_TIMEOUT.
    """

    def __init__(self, workers: int) -> None:
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload([__name__])  # imported once, not by every worker
        self._workers = workers
        pebble.CONSTS.term_timeout = TERM_TIMEOUT
        with pool_workers.creating_locks():
            self._barrier = self._context.Barrier(workers)
            self._pool = self._create()

    def _create(self) -> Any:
        """Return a new pool, whose workers start with the first call."""
        arguments = (self._barrier,)
        return pebble.ProcessPool(self._workers, 0, _init_process, arguments, self._context)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()
        self._pool.join()

    def start(self, task: str) -> None:
        """Start every worker, or end the process: pebble does not wait for its workers to start."""
        try:
            pool_workers.start(_View(self._pool), self._workers, task)
        except UserError as error:
            readiness.abort_start(error)

    async def run(
        self,
        function: Callable[..., T],
        /,
        *args: object,
        idempotent: bool,
        timeout: float | None = None,
    ) -> T:
        """Run a call; if it is idempotent, retry it once if its worker died or the pool ended.

        Raise BrokenProcessPool if the call is lost, PoolUnavailable if it cannot be started. A
        worker whose call takes longer than `timeout` seconds is killed and replaced: raise
        TimeoutError.
        """
        failures: Counter[type[Exception]] = Counter()  # both can happen one after the other
        while True:
            future = self._schedule(function, args, timeout)
            try:
                found: T = await asyncio.wrap_future(future)
            except (pebble.ProcessExpired, BrokenProcessPool) as error:
                failures[type(error)] += 1
                if not idempotent or failures[type(error)] > 1:
                    raise BrokenProcessPool(f"the worker ended: {error}") from None
            else:
                return found

    def _schedule(
        self, function: Callable[..., T], args: tuple[object, ...], timeout: float | None
    ) -> Future[T]:
        """Schedule a call, in a new pool if the pool has ended; raise PoolUnavailable."""
        future: Future[T]
        try:
            future = self._pool.schedule(function, args, timeout=timeout)
        except RuntimeError:
            self._replace()
            try:
                future = self._pool.schedule(function, args, timeout=timeout)
            except RuntimeError as error:
                raise PoolUnavailable(f"the workers do not start: {error!r}") from None
        return future

    def _replace(self) -> None:
        old, self._pool = self._pool, self._create()
        probe.facts["rebuilt"] = int(str(probe.facts.get("rebuilt", 0))) + 1
        # In a thread: it kills the workers that are left, and waits for their end.
        asyncio.get_running_loop().run_in_executor(None, old.join)


def _init_process(barrier: pool_workers.Barrier) -> None:
    pebble.CONSTS.channel_lock_timeout = LOCK_TIMEOUT
    pool_workers.init_process(barrier)


class _View(Executor):
    """The pool as an Executor for `pool_workers.start`: pebble's own submit needs a timeout."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = self._pool.schedule(fn, args, kwargs)
        return future
