"""Recovery of the standard process pool: if one worker dies, the pool breaks and is recreated."""

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
from threading import BrokenBarrierError
from typing import TypeVar

from offload.errors import UserError
from offload.serving.metrics import probe
from offload.serving.pools import pool_workers

ENDING = 1.0  # s for workers to exit by themselves, or for a broken pool to shut down
BUILDS = 3  # attempts to create a pool whose workers die at their start
READY = 10.0  # s for the workers of all attempts to be ready
WAITING = 5.0  # s for which a request waits for the pool

T = TypeVar("T")


class PoolUnavailable(BrokenProcessPool):
    """The pool could not be recreated yet; a later request may succeed."""


class Pool:
    """The pool that `build` creates, recreated when it breaks; a task runs at most twice.

    It is created and shut down outside the event loop. It is recreated on the loop's thread: that
    thread holds no lock when it forks. If that fails there is no pool, and the next request tries
    it again.
    """

    def __init__(self, build: Callable[[], ProcessPoolExecutor], workers: int, task: str) -> None:
        self._build = build
        self._workers = workers
        self._task = task
        self._executor: ProcessPoolExecutor | None = build()
        self._recovery: asyncio.Task[None] | None = None
        self._is_ending = False

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor is None:
            return
        self._executor.shutdown(wait=False)
        until = time.monotonic() + ENDING
        for worker in multiprocessing.active_children():
            worker.join(max(0.0, until - time.monotonic()))
        _kill_workers()
        self._executor.shutdown()

    def start(self) -> None:
        """Start every worker; raise StartError, or the error of the task's import."""
        assert self._executor is not None
        pool_workers.start(self._executor, self._workers, self._task)

    async def __aenter__(self) -> None:
        """Do nothing: the pool was started before the loop."""

    async def __aexit__(self, *_: object) -> None:
        """Let a running recovery fail, and wait: cancelling it would leave workers behind."""
        self._is_ending = True
        while self._recovery is not None:
            _kill_workers()  # they may never get ready
            await asyncio.wait([self._recovery], timeout=0.1)

    async def run(self, function: Callable[..., T], /, *args: object, idempotent: bool) -> T:
        """Run a call; retry it once if the pool broke and it is idempotent.

        Raise BrokenProcessPool if the call is lost, PoolUnavailable if it cannot be started.
        """
        tries = 2 if idempotent else 1
        while True:
            executor, future = await self._submit(function, args)
            try:
                return await asyncio.wrap_future(future)
            except BrokenProcessPool:
                self._start_recovery(executor)
                tries -= 1
                if not tries:
                    raise

    async def _submit(
        self, function: Callable[..., T], args: tuple[object, ...]
    ) -> tuple[ProcessPoolExecutor, Future[T]]:
        """Submit a call to a working pool; a pool that broke while idle does not count as a try."""
        until = time.monotonic() + WAITING
        for _ in range(2):
            while (recovery := self._recovery) is not None:
                if (left := until - time.monotonic()) <= 0:
                    raise PoolUnavailable("the workers are still starting")
                await asyncio.wait([recovery], timeout=left)
            executor = self._executor
            if executor is not None:
                with suppress(BrokenProcessPool):
                    return executor, executor.submit(function, *args)
            self._start_recovery(executor)
        raise PoolUnavailable("the workers do not start: see their output")

    def _start_recovery(self, executor: ProcessPoolExecutor | None) -> None:
        """Start the recovery, unless it is already running."""
        if executor is self._executor and self._recovery is None:
            self._recovery = asyncio.create_task(self._recover())

    async def _recover(self) -> None:
        """Recreate the pool; if its workers are not ready at the deadline, there is no pool."""
        until = time.monotonic() + READY
        try:
            for _ in range(BUILDS):
                await self._shut_down()
                self._executor = self._build()
                try:
                    handshakes = pool_workers.submit_handshakes(
                        self._executor, self._workers, self._task
                    )
                    async with asyncio.timeout(until - time.monotonic()):
                        reports = await asyncio.gather(*map(asyncio.wrap_future, handshakes))
                except (
                    BrokenProcessPool,
                    OSError,
                    EOFError,
                    UserError,
                    BrokenBarrierError,
                ) as error:
                    if isinstance(error, TimeoutError) or self._is_ending:
                        break
                    continue
                pool_workers.record_reports(reports)
                probe.facts["rebuilt"] = int(str(probe.facts.get("rebuilt", 0))) + 1
                return
            await self._shut_down()
        finally:
            self._recovery = None

    async def _shut_down(self) -> None:
        """Kill the workers, and let the pool end in a thread."""
        executor, self._executor = self._executor, None
        _kill_workers()  # the workers ignore the signal that the pool sends
        if executor is not None:
            ending = asyncio.create_task(asyncio.to_thread(executor.shutdown))
            await asyncio.wait([ending], timeout=ENDING)


def init_process(barrier: pool_workers.Barrier) -> None:
    """Initialize a worker process, and close the sockets that it inherited from the server."""
    for number in _open_files():
        with suppress(OSError):  # not a socket
            found = socket.socket(fileno=number)
            if found.family in {socket.AF_INET, socket.AF_INET6}:
                found.close()
            else:
                found.detach()
    pool_workers.init_process(barrier)


def _open_files() -> Iterable[int]:
    """Return the numbers of the open files, or all possible numbers if they are not listed."""
    try:
        return [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208 - names, not paths
    except OSError:
        return range(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _kill_workers() -> None:
    for worker in multiprocessing.active_children():
        worker.kill()
