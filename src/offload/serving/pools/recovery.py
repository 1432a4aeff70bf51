"""The standard process pool, healed: where one worker dies it ends all, so it is built anew."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import TypeVar

from offload.errors import Mendable
from offload.serving.metrics import probe
from offload.serving.pools import pool_workers

ENDING = 1.0  # s for workers to end of themselves, and for a broken pool to let go of them
BUILDS = 3  # times to build a pool whose workers die while they begin

T = TypeVar("T")


class Pool:
    """What `build` gives, and another when that is broken; a task is tried twice at most.

    It is built and ended outside of the event loop, and healed on it: a `fork` is then of the
    thread that holds no lock.
    """

    def __init__(self, build: Callable[[], ProcessPoolExecutor], workers: int, task: str) -> None:
        self._build = build
        self._workers = workers
        self._task = task
        self._executor = build()
        self._healing: asyncio.Task[None] | None = None

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(wait=False)
        until = time.monotonic() + ENDING
        for worker in multiprocessing.active_children():
            worker.join(max(0.0, until - time.monotonic()))
        _kill_workers()
        self._executor.shutdown()

    def start(self) -> None:
        """Begin every worker; raise StartError, or what the import of the task raised."""
        pool_workers.start(self._executor, self._workers, self._task)

    async def __aenter__(self) -> None:
        """Begin nothing: the pool was begun before the loop."""

    async def __aexit__(self, *_: object) -> None:
        """End no healing in the middle: it would leave workers behind."""
        if self._healing is not None:
            await asyncio.wait([self._healing])

    async def run(self, function: Callable[..., T], /, *args: object, idempotent: bool) -> T:
        """Run a call, once more when its pool broke and it is idempotent; BrokenProcessPool."""
        tries = 2 if idempotent else 1
        while True:
            executor, future = await self._submit(function, args)
            try:
                return await asyncio.wrap_future(future)
            except BrokenProcessPool:
                self._broke(executor)
                tries -= 1
                if not tries:
                    raise

    async def _submit(
        self, function: Callable[..., T], args: tuple[object, ...]
    ) -> tuple[ProcessPoolExecutor, Future[T]]:
        """Hand a call to a pool that is whole: one that broke while it was idle costs no try."""
        for _ in range(2):
            if self._healing is not None:
                await asyncio.wait([self._healing])
            executor = self._executor
            try:
                return executor, executor.submit(function, *args)
            except BrokenProcessPool:
                self._broke(executor)
        raise BrokenProcessPool("the workers die while they begin: see their own words")

    def _broke(self, executor: ProcessPoolExecutor) -> None:
        """Begin to heal, unless another request has begun to."""
        if executor is self._executor and self._healing is None:
            self._healing = asyncio.create_task(self._heal())

    async def _heal(self) -> None:
        try:
            for _ in range(BUILDS):
                _kill_workers()  # the pool asks them to end by a signal that they ignore
                ending = asyncio.create_task(asyncio.to_thread(self._executor.shutdown))
                await asyncio.wait([ending], timeout=ENDING)
                self._executor = self._build()
                try:
                    meetings = pool_workers.call(self._executor, self._workers, self._task)
                    async with asyncio.timeout(pool_workers.DEADLINE):
                        met = await asyncio.gather(*map(asyncio.wrap_future, meetings))
                except (BrokenProcessPool, OSError, EOFError, TimeoutError, Mendable):
                    continue
                pool_workers.note_met(met)
                probe.facts["rebuilt"] = int(str(probe.facts.get("rebuilt", 0))) + 1
                return
        finally:
            self._healing = None


def begin(barrier: pool_workers.Barrier) -> None:
    """Initialise a worker process: a fork of a listening server has its sockets, and lets go."""
    for number in _open_files():
        with suppress(OSError):  # no socket
            found = socket.socket(fileno=number)
            if found.family in {socket.AF_INET, socket.AF_INET6}:
                found.close()
            else:
                found.detach()
    pool_workers.begin(barrier)


def _open_files() -> Iterable[int]:
    """Return the numbers of the open files, or every possible one where none are listed."""
    try:
        return [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208 - names, not paths
    except OSError:
        return range(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _kill_workers() -> None:
    for worker in multiprocessing.active_children():
        worker.kill()
