"""Recovery of the standard process pool: if one worker dies, the pool breaks and is recreated."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import os
import resource
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import connection
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from offload.serving.lifecycle import log
from offload.serving.metrics import probe
from offload.serving.pools import pool_workers

ENDING = 1.0  # s for workers to exit by themselves, or for a broken pool to shut down
RETIRING = 0.05  # s between two looks at a pool that is being replaced
RETRY = 1.0  # s after a failed replacement until a request starts another one; a guess
BUILDS = 3  # attempts to create a pool whose workers die at their start
READY = 10.0  # s for the workers of all attempts to be ready
WAITING = 5.0  # s for which a request waits for the pool

T = TypeVar("T")


class PoolUnavailable(BrokenProcessPool):
    """The pool could not be recreated yet; a later request may succeed."""


class Pool:
    """The pool that `build` creates, recreated when it breaks; a task runs at most twice.

    It is created and shut down outside the event loop. It is recreated on the loop's thread: that
    thread holds no lock when it forks. If that fails, a later request tries it again; until then
    there is no pool, or the old one if it was to be replaced after a timeout.
    """

    def __init__(self, build: Callable[[], ProcessPoolExecutor], workers: int, task: str) -> None:
        self._build = build
        self._workers = workers
        self._task = task
        with pool_workers.creating_locks():
            self._executor: ProcessPoolExecutor | None = build()
        self._recovery: asyncio.Task[None] | None = None
        self._replace_at = math.inf  # after a failed replacement, the time of the next one
        self._is_ending = False
        self._retiring: set[asyncio.Task[None]] = set()
        self._timed: Counter[ProcessPoolExecutor] = Counter()  # running calls that have a timeout
        # Calls that exceeded it. They may still occupy a worker.
        self._late: WeakKeyDictionary[ProcessPoolExecutor, list[Future[Any]]] = WeakKeyDictionary()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ending = True
        if self._executor is not None:
            self._executor.shutdown(wait=False)
        until = time.monotonic() + ENDING
        for worker in multiprocessing.active_children():
            worker.join(max(0.0, until - time.monotonic()))
        _kill_workers()  # also those of a pool that was replaced

    def start(self) -> None:
        """Start every worker; raise StartError, or the error of the task's import."""
        assert self._executor is not None
        pool_workers.start(self._executor, self._workers, self._task)
        _close_writer(self._executor)
        self._watch(cast("list[int]", probe.facts["worker_pids"]))

    async def __aenter__(self) -> None:
        """Do nothing: the pool was started before the loop."""

    async def __aexit__(self, *_: object) -> None:
        """Let a running recovery fail, and wait: cancelling it would leave workers behind."""
        self._is_ending = True
        while self._recovery is not None:
            _kill_workers()  # they may never get ready
            await asyncio.wait([self._recovery], timeout=0.1)
        if self._retiring:
            await asyncio.wait(self._retiring, timeout=ENDING)

    async def run(
        self,
        function: Callable[..., T],
        /,
        *args: object,
        idempotent: bool,
        timeout: float | None = None,
    ) -> T:
        """Run a call; retry it once if the pool broke and it is idempotent.

        Raise BrokenProcessPool if the call is lost, PoolUnavailable if it cannot be started. A
        worker whose call takes longer than `timeout` seconds is killed and replaced: raise
        TimeoutError. The time starts at the call, so there should not be more calls than workers.
        """
        tries = 2 if idempotent else 1
        while True:
            executor, future = await self._submit(function, args)
            try:
                if timeout is None:
                    return await asyncio.wrap_future(future)
                return await self._run_timed(executor, future, timeout)
            except BrokenProcessPool:
                self._start_recovery(executor)
                tries -= 1
                if not tries:
                    raise
            except asyncio.CancelledError:
                if executor is self._executor or _is_cancelled():
                    raise  # else it had not started when its pool was replaced

    async def _run_timed(
        self, executor: ProcessPoolExecutor, future: Future[T], timeout: float
    ) -> T:
        self._timed[executor] += 1
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            self._late.setdefault(executor, []).append(future)
            if executor is self._executor:
                self._start_replacement()
            raise
        finally:
            self._timed[executor] -= 1
            if not self._timed[executor]:
                del self._timed[executor]  # a key would keep a broken pool, and its semaphores

    def _start_replacement(self) -> None:
        """Start to replace the pool, unless it is already being replaced or recreated."""
        if self._recovery is None:
            self._recovery = asyncio.create_task(self._replace())

    async def _replace(self) -> None:
        """Create a new pool; kill the old one's workers when its other calls have ended.

        The standard pool cannot replace a single worker: to kill one breaks the pool, and with it
        the calls of the other workers. If there is no new pool, the old one stays until RETRY.
        Calls that wait in the old pool are moved to the new one.
        """
        old = self._executor
        assert old is not None
        pids = set(cast("list[int]", probe.facts["worker_pids"]))
        self._replace_at = math.inf
        try:
            new = await self._create(time.monotonic() + READY)
            if new is None:
                self._replace_at = time.monotonic() + RETRY
                return
            self._executor = new
            probe.facts["replaced"] = int(str(probe.facts.get("replaced", 0))) + 1
        finally:
            self._recovery = None
        retiring = asyncio.create_task(self._retire(old, pids))
        self._retiring.add(retiring)
        retiring.add_done_callback(self._retiring.discard)

    async def _retire(self, old: ProcessPoolExecutor, pids: Collection[int]) -> None:
        # A call that was cancelled while it was queued would end the pool's thread with an error
        # (Python 3.11): let it drop these calls before it finds that a worker has ended.
        pool: Any = old
        thread = pool._executor_manager_thread  # there is no public name
        old.shutdown(wait=False, cancel_futures=True)
        # Each call ends by its timeout. The pool has passed a few on that no worker has started:
        # if all workers are stuck, these run in the new pool if they are idempotent.
        while self._timed[old] and self._count_stuck(old) < self._workers:
            await asyncio.sleep(RETIRING)
        for worker in multiprocessing.active_children():
            if worker.pid in pids:
                worker.kill()
        await asyncio.to_thread(thread.join)

    def _count_stuck(self, executor: ProcessPoolExecutor) -> int:
        """Count the calls that exceeded their timeout and have not ended."""
        return sum(not each.done() for each in self._late.get(executor, ()))

    async def _create(self, until: float) -> ProcessPoolExecutor | None:
        """Return a new pool whose workers are ready; if that fails, leave none of them: None."""
        before = {worker.pid for worker in multiprocessing.active_children()}
        try:
            new = self._build()
        except OSError as error:  # a limit, for example of open files
            log.failure(f"the pool cannot be created: {error}")
            return None
        if await self._shake_hands(new, until):
            return new
        _kill_workers(but=before)
        await _end(new)
        return None

    async def _shake_hands(self, executor: ProcessPoolExecutor, until: float) -> bool:
        """Start the workers of a new pool and record their reports; return False if they fail."""
        try:
            handshakes = pool_workers.submit_handshakes(executor, self._workers, self._task)
            _close_writer(executor)
            async with asyncio.timeout(until - time.monotonic()):
                reports = await asyncio.gather(*map(asyncio.wrap_future, handshakes))
            self._watch([pid for pid, _ in reports])
        except Exception as error:  # noqa: BLE001 - a limit, a timeout, or any error of an import
            if not self._is_ending:
                log.failure(f"the workers do not start: {error!r}")
            return False
        pool_workers.record_reports(reports)
        return True

    def _watch(self, pids: Collection[int]) -> None:
        """Start a thread that kills all workers of a pool when the first of them ends.

        The pool breaks anyway. But if that worker was killed while it sent a result, the pool waits
        for the rest of it, until no process can write to the pipe of the results.
        """
        workers = [each for each in multiprocessing.active_children() if each.pid in pids]

        def kill_together() -> None:
            if len(workers) == len(pids):  # else one has already ended
                connection.wait([worker.sentinel for worker in workers])
            if not self._is_ending:
                for worker in workers:
                    worker.kill()

        threading.Thread(target=kill_together, name="pool-watch", daemon=True).start()

    async def _submit(
        self, function: Callable[..., T], args: tuple[object, ...]
    ) -> tuple[ProcessPoolExecutor, Future[T]]:
        """Submit a call to a working pool; a pool that broke while idle does not count as a try."""
        until = time.monotonic() + WAITING
        if self._replace_at <= time.monotonic():
            self._start_replacement()
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
        self._replace_at = math.inf
        try:
            await self._shut_down()
            for _ in range(BUILDS):
                self._executor = await self._create(until)
                if self._executor is not None:
                    probe.facts["rebuilt"] = int(str(probe.facts.get("rebuilt", 0))) + 1
                    return
                if self._is_ending or time.monotonic() >= until:
                    return
        finally:
            self._recovery = None

    async def _shut_down(self) -> None:
        """Kill the workers, and let the pool end in a thread."""
        executor, self._executor = self._executor, None
        _kill_workers()  # the workers ignore the signal that the pool sends
        if executor is not None:
            await _end(executor)


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


def _close_writer(executor: ProcessPoolExecutor) -> None:
    """Close this process's end of the pipe on which the workers send results: only they use it.

    All workers must have been started.
    """
    results: Any = executor._result_queue  # there is no public name
    results._writer.close()


async def _end(executor: ProcessPoolExecutor) -> None:
    """Let a pool without workers end in a thread, and wait for ENDING at most."""
    # It raises an error if the thread of the pool could not be started.
    ending = asyncio.gather(asyncio.to_thread(executor.shutdown), return_exceptions=True)
    await asyncio.wait([ending], timeout=ENDING)


def _is_cancelled() -> bool:
    """Whether the current task itself is to be cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _kill_workers(but: Collection[int | None] = ()) -> None:
    for worker in multiprocessing.active_children():
        if worker.pid not in but:
            worker.kill()
