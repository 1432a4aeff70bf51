"""pebble's process pool, started and stopped like the other servers' pools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

import pebble

from offload.errors import UserError
from offload.serving.lifecycle import readiness
from offload.serving.pools import pool_workers

TERM_TIMEOUT = 0.1  # s until pebble kills a worker; ours ignore the SIGTERM that it sends first

T = TypeVar("T")


class Pool:
    """A pebble.ProcessPool: a worker that dies in a task is replaced, the task retried once.

    If an idle worker dies, pebble ends the whole pool permanently.
    """

    def __init__(self, workers: int) -> None:
        context = get_context("forkserver")
        barrier = (context.Barrier(workers),)
        self._workers = workers
        pebble.CONSTS.term_timeout = TERM_TIMEOUT
        self._pool = pebble.ProcessPool(workers, 0, pool_workers.init_process, barrier, context)

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
        """Run a call; retry it once if its worker died and it is idempotent.

        Raise BrokenProcessPool if the call is lost. A worker whose call takes longer than `timeout`
        seconds is killed and replaced: raise TimeoutError.
        """
        tries = 2 if idempotent else 1
        while True:
            try:
                future = self._pool.schedule(function, args, timeout=timeout)
            except RuntimeError as error:
                raise BrokenProcessPool(f"the pool has ended: {error}") from None
            try:
                found: T = await asyncio.wrap_future(future)
            except pebble.ProcessExpired as error:
                tries -= 1
                if not tries:
                    raise BrokenProcessPool(f"the worker ended: {error}") from None
            else:
                return found


class _View(Executor):
    """The pool as an Executor for `pool_workers.start`: pebble's own submit needs a timeout."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = self._pool.schedule(fn, args, kwargs)
        return future
