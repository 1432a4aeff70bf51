"""A pool of pebble's, begun and ended as the other servers' pools are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, TypeVar

import pebble

from offload.errors import Mendable
from offload.serving.pools import pool_workers

T = TypeVar("T")


class Pool:
    """A pebble.ProcessPool: it replaces a worker that dies at work, whose task is tried once more.

    One that dies while no task runs ends the whole pool, for good: that is pebble's own.
    """

    def __init__(self, workers: int) -> None:
        context = get_context("forkserver")
        barrier = (context.Barrier(workers),)
        self._workers = workers
        self._pool = pebble.ProcessPool(workers, 0, pool_workers.begin, barrier, context)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()
        self._pool.join()

    def start(self, task: str) -> None:
        """Begin every worker, or end at once: a pool of pebble's waits for no worker's birth."""
        try:
            pool_workers.start(_View(self._pool), self._workers, task)
        except Mendable as error:
            pool_workers.give_up(error)

    async def run(self, function: Callable[..., T], /, *args: object, idempotent: bool) -> T:
        """Run a call, once more when its worker died and it is idempotent; BrokenProcessPool."""
        tries = 2 if idempotent else 1
        while True:
            try:
                future = self._pool.schedule(function, args)
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
    """The pool as what `pool_workers.start` starts: pebble's own submit wants a timeout."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = self._pool.schedule(fn, args, kwargs)
        return future
