"""PipePool: run blocking functions in worker processes, from an event loop and on it alone."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import math
import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from pipepool.exceptions import BrokenWorker
from pipepool.scheduler import Scheduler
from pipepool.shared_memory import ARENA_SIZE
from pipepool.worker import Setup
from pipepool.worker_connection import DEFAULTS, Options
from pipepool.worker_manager import Config

T = TypeVar("T")

CGROUP = Path("/sys/fs/cgroup")


def configure(
    max_workers: int | None,
    initializer: Callable[..., object] | None,
    initargs: tuple[Any, ...],
    max_tasks_per_child: int | None,
    preload: Sequence[str] = (),
    variables: Sequence[str] = (),
) -> Config:
    """Check a pool's parameters; errors have the texts of the standard executors."""
    if max_workers is None:
        max_workers = available_cpus()
    max_workers = operator.index(max_workers)
    if max_workers <= 0:
        raise ValueError("max_workers must be greater than 0")
    if initializer is not None and not callable(initializer):
        raise TypeError("initializer must be a callable")
    if max_tasks_per_child is not None:
        if not isinstance(max_tasks_per_child, int):
            raise TypeError("max_tasks_per_child must be an integer")
        if max_tasks_per_child <= 0:
            raise ValueError("max_tasks_per_child must be >= 1")
    has_spare_cores = max_workers + 2 <= available_cpus()  # for workers that wait awake
    setup = Setup(initializer, initargs, None, tuple(variables), has_spare_cores)
    return Config(max_workers, max_tasks_per_child, tuple(preload), ARENA_SIZE, setup)


def available_cpus() -> int:
    """Count the CPUs that this process may use: its affinity, and its cgroup's quota."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    quota = _cgroup_quota()
    return cpus if quota is None else max(1, min(cpus, math.ceil(quota)))


def _cgroup_quota() -> float | None:
    """Return the CPUs that the cgroup (version 2) of this process may use, None without a limit."""
    try:
        own = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip()
    except OSError:
        return None
    least: float | None = None
    folder = CGROUP / own.lstrip("/")
    for each in (folder, *folder.parents):  # every level limits what is below it
        try:
            quota, period = (each / "cpu.max").read_text().split()
        except (OSError, ValueError):
            continue
        if quota != "max":
            cpus = int(quota) / int(period)
            least = cpus if least is None else min(least, cpus)
    return least


class PipePool:
    """Worker processes of one event loop: `async with PipePool(2) as pool: await pool.run(f, x)`.

    `preload` names modules that are imported once, before the workers are forked. `max_queue` is
    the number of tasks that may wait. `context` names context variables, "module:name", whose
    values are sent with each task.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        preload: Sequence[str] = (),
        max_tasks_per_child: int | None = None,
        max_queue: int | None = None,
        context: Sequence[str] = (),
    ) -> None:
        self._config = configure(
            max_workers, initializer, initargs, max_tasks_per_child, preload, context
        )
        self._variables = [_context_variable(path) for path in context]
        if max_queue is not None and max_queue < 0:
            raise ValueError("max_queue must be at least 0, or None for any number")
        self._max_queue = max_queue
        self._scheduler: Scheduler | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    async def __aenter__(self) -> PipePool:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(None if error is None else 0)

    async def start(self) -> None:
        """Start the workers on the running loop, and wait until they can take tasks.

        Raises BrokenWorker when none can start: an import or the initializer failed.
        """
        if self._scheduler is None:
            if self._is_closed:
                raise RuntimeError("cannot start a pool that was closed")
            self._loop = asyncio.get_running_loop()
            self._scheduler = Scheduler(self._loop, self._config, self._max_queue)
        scheduler = self._scheduler
        self._check_loop()
        try:
            await asyncio.shield(scheduler.manager.started)
        except asyncio.CancelledError:
            await self.close(0)
            raise
        if (why := scheduler.broken) is not None:
            await self.close(0)
            raise BrokenWorker(why) from scheduler.manager.cause

    async def run(
        self,
        function: Callable[..., T],
        /,
        *args: object,
        timeout: float | None = None,
        queue_timeout: float | None = None,
        idempotent: bool = False,
        zero_copy_result: bool = False,
        zero_copy_args: bool = False,
        kill_on_cancel: bool = False,
    ) -> T:
        """Run `function(*args)` in a worker; return its result or raise its exception.

        `timeout` in seconds counts from the start of the task, whose worker is killed;
        `queue_timeout` limits the wait for a worker; both raise TimeoutError. An `idempotent` task
        is retried once when its worker dies; every other one raises BrokenWorker. With
        `zero_copy_result` large buffers of the result are read-only views of shared memory, freed
        when released or collected (bytes become a memoryview); with `zero_copy_args` those of the
        arguments are, for as long as the worker keeps them. Raises QueueFull at once when
        `max_queue` tasks wait, TypeError for a time that is not a number.
        """
        scheduler, loop = self._scheduler, self._loop
        if scheduler is None or loop is None or self._is_closed:
            raise RuntimeError("a pool runs tasks between start() and close()")
        self._check_loop()
        options = DEFAULTS
        if (
            timeout is not None
            or queue_timeout is not None
            or idempotent
            or zero_copy_result
            or zero_copy_args
            or kill_on_cancel
        ):
            options = Options(
                timeout, queue_timeout, idempotent, zero_copy_result, kill_on_cancel, zero_copy_args
            )
        variables = self._values() if self._variables else None
        future: asyncio.Future[T] = loop.create_future()
        task = scheduler.submit(function, args, {}, future, options, variables)
        try:
            return await future
        except asyncio.CancelledError:
            scheduler.cancel(task)
            raise

    def _check_loop(self) -> None:
        if asyncio._get_running_loop() is not self._loop:  # None in a forked child, too
            if self._scheduler is not None and self._scheduler.broken is not None:
                raise BrokenWorker(self._scheduler.broken)
            raise RuntimeError("this pool belongs to the loop that it was started on")

    def _values(self) -> list[tuple[int, Any]]:
        context = contextvars.copy_context()
        return [(i, context[v]) for i, v in enumerate(self._variables) if v in context]

    def stats(self) -> Stats:
        """Return counts of tasks and workers so far."""
        if self._scheduler is None:
            raise RuntimeError("a pool has figures once it was started")
        return _stats(self._scheduler)

    def initializer_results(self) -> list[Any]:
        """Return what the initializer returned in each live worker; None without one."""
        if self._scheduler is None:
            return []
        connections = self._scheduler.manager.connections.values()
        return [each.initializer_result for each in connections if each.pid is not None]

    async def close(self, grace: float | None = None) -> None:
        """Reject new tasks, give the others `grace` seconds (None: no limit), end the workers.

        Tasks that have not ended by then raise BrokenWorker where they are awaited. When this is
        cancelled the workers are killed. Nothing is left of the pool in either case.
        """
        scheduler = self._scheduler
        if scheduler is not None:
            self._check_loop()
        self._is_closed = True
        if scheduler is None:
            return
        try:
            await scheduler.drain(grace)
        finally:
            cancelled = None
            ending = asyncio.ensure_future(scheduler.end())
            while not ending.done():  # it is bounded, whoever cancels this task, or all tasks
                try:
                    await asyncio.shield(ending)
                except asyncio.CancelledError as error:
                    cancelled = error
                    if ending.cancelled():
                        ending = asyncio.ensure_future(scheduler.end())
            if cancelled is not None:
                raise cancelled


@dataclass(frozen=True)
class Stats:
    """Counts of tasks and workers, and sums of times; unknown values are None.

    A task is in `queued`, then in `running` (a worker holds it), at last in `done` or `failed`;
    `crashed` are the failed ones whose worker died. `killed` counts workers that were killed for a
    timeout or a cancellation, `restarts` those replaced after a death, `memory` the bytes (PSS)
    that all of them use. `queue_s`, `run_s` and `transport_s` are sums over all tasks so far.
    """

    queued: int
    running: int
    done: int
    failed: int
    crashed: int
    killed: int
    restarts: int
    pids: tuple[int, ...]
    memory: int | None
    queue_s: float
    run_s: float
    transport_s: float


def _stats(scheduler: Scheduler) -> Stats:
    manager, accounting = scheduler.manager, scheduler.accounting
    pids = tuple(manager.pids())
    return Stats(
        queued=len(scheduler.queue),
        running=scheduler.running,
        done=accounting.done,
        failed=accounting.failed,
        crashed=accounting.crashed,
        killed=manager.killed,
        restarts=manager.restarts,
        pids=pids,
        memory=_memory(pids),
        queue_s=accounting.queue_ns / 1e9,
        run_s=accounting.run_ns / 1e9,
        transport_s=accounting.transport_ns / 1e9,
    )


def _memory(pids: tuple[int, ...]) -> int | None:
    try:
        return sum(_pss(pid) for pid in pids)
    except (OSError, StopIteration):  # not Linux, or a worker ended just now
        return None


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _context_variable(path: str) -> contextvars.ContextVar[Any]:
    module, _, name = path.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, contextvars.ContextVar):
        raise ValueError(f"context={path!r} is not the 'module:name' of a context variable")
    return found
