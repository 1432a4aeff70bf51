"""PipePool: run blocking functions in worker processes from an event loop, without threads."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import itertools
import math
import operator
import os
import sys
from asyncio import _get_running_loop
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, TypeVarTuple

from pipepool.exceptions import BrokenWorker
from pipepool.scheduler import Scheduler, TaskMetrics
from pipepool.shared_memory import ARENA_SIZE, PAGE
from pipepool.worker import Setup
from pipepool.worker_connection import DEFAULTS, Options, check_seconds
from pipepool.worker_manager import Config, check_picklable

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

CGROUP = Path("/sys/fs/cgroup")
LONG_BUSY_WAIT = 200_000  # ns; about twice the cost of falling asleep and being woken
SHORT_BUSY_WAIT = 150_000  # ns; without two spare CPUs
MOST_SHARED_MEMORY = 1 << 40  # bytes
AHEAD = 8  # tasks per worker that `map` submits ahead of its consumer


def configure(
    max_workers: int | None = None,
    initializer: Callable[..., object] | None = None,
    initargs: tuple[Any, ...] = (),
    *,
    preload: Sequence[str] = (),
    max_tasks_per_child: int | None = None,
    max_queue: int | None = None,
    context: Sequence[str] = (),
    finalizer: Callable[[], object] | None = None,
    start_timeout: float | None = None,
    busy_wait: bool | None = None,
    shared_memory: int = ARENA_SIZE,
    metrics: Callable[[TaskMetrics], object] | None = None,
) -> Config:
    """Check the parameters of a pool and return its configuration.

    Raises TypeError or ValueError, with the messages of the standard executors.
    """
    if max_workers is None:
        max_workers = available_cpus()
    max_workers = operator.index(max_workers)
    if max_workers <= 0:
        raise ValueError("max_workers must be greater than 0")
    callables = ("initializer", initializer), ("finalizer", finalizer), ("metrics", metrics)
    for name, function in callables:
        if function is not None and not callable(function):
            raise TypeError(f"{name} must be a callable")
    if max_tasks_per_child is not None:
        if not isinstance(max_tasks_per_child, int):
            raise TypeError("max_tasks_per_child must be an integer")
        if max_tasks_per_child <= 0:
            raise ValueError("max_tasks_per_child must be >= 1")
        max_tasks_per_child = min(max_tasks_per_child, sys.maxsize)
    if max_queue is not None and operator.index(max_queue) < 0:
        raise ValueError("max_queue must be at least 0, or None for any number")
    if not PAGE <= operator.index(shared_memory) <= MOST_SHARED_MEMORY:
        raise ValueError(f"shared_memory must be {PAGE} to {MOST_SHARED_MEMORY} bytes")
    start_timeout = check_seconds("start_timeout", start_timeout)
    if isinstance(preload, str) or isinstance(context, str):
        raise TypeError("preload and context must be lists of names, not one string")
    setup = Setup(
        initializer, initargs, finalizer, tuple(context), _busy_wait_ns(busy_wait, max_workers)
    )
    check_picklable(setup)
    size = -(-shared_memory // PAGE) * PAGE
    return Config(
        max_workers,
        max_tasks_per_child,
        tuple(preload),
        size,
        start_timeout,
        max_queue,
        metrics,
        setup,
    )


def available_cpus() -> int:
    """Count the CPUs that this process may use: its affinity, and its cgroup's quota."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    quota = _cgroup_quota()
    return cpus if quota is None else max(1, min(cpus, math.ceil(quota)))


def _busy_wait_ns(busy_wait: bool | None, max_workers: int) -> int:
    """Return how long a worker polls before it sleeps, in ns; 0: never.

    Without two spare CPUs polling slows the parent, so the limit is lower. Polling uses up a
    cgroup's quota, so it then needs two spare CPUs.
    """
    cpus = available_cpus()
    if busy_wait or (busy_wait is None and max_workers + 2 <= cpus):
        return LONG_BUSY_WAIT
    if busy_wait is None and max_workers <= cpus > 1 and _cgroup_quota() is None:
        return SHORT_BUSY_WAIT
    return 0


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

    * `initializer(*initargs)` runs in each worker before its first task, `finalizer()` at its end.
    * `preload` names modules that are imported once, before the workers are forked.
    * `max_tasks_per_child` is the number of tasks after which a worker is replaced.
    * `max_queue` is the number of tasks that may wait for a worker.
    * `context` names context variables, "module:name", whose values are sent with each task.
    * `start_timeout` limits the start of each worker, in seconds. If none is ready by then, the
      start fails; later, a worker that exceeds it is killed and started again.
    * `busy_wait`: True: workers poll for up to 200 us before they sleep while tasks arrive in
      quick succession; False: never. None: 200 us if there are two CPUs more than workers; 150 us
      if there are as many CPUs as workers, more than one CPU and no cgroup quota; else never.
    * `shared_memory` is the size of the memory for large arguments, and of that for large results,
      in bytes, for each worker. Pages are allocated on first use.
    * `metrics` is called on the loop with a TaskMetrics at the end of each task.

    >>> import asyncio
    >>> async def main():
    ...     async with PipePool(1) as pool:
    ...         print(await pool.run(divmod, 17, 5), [x async for x in pool.map(abs, [-1, 2])])
    >>> asyncio.run(main())
    (3, 2) [1, 2]
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
        finalizer: Callable[[], object] | None = None,
        start_timeout: float | None = None,
        busy_wait: bool | None = None,
        shared_memory: int = ARENA_SIZE,
        metrics: Callable[[TaskMetrics], object] | None = None,
    ) -> None:
        self._config = configure(
            max_workers,
            initializer,
            initargs,
            preload=preload,
            max_tasks_per_child=max_tasks_per_child,
            max_queue=max_queue,
            context=context,
            finalizer=finalizer,
            start_timeout=start_timeout,
            busy_wait=busy_wait,
            shared_memory=shared_memory,
            metrics=metrics,
        )
        self._variables = ContextVariables(context) if context else None
        self._scheduler: Scheduler | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._endings: list[asyncio.Future[None]] = []  # of starts that were cancelled
        self._is_closed = False

    async def __aenter__(self) -> PipePool:
        try:
            await self.start()
        except asyncio.CancelledError:
            await self.close(0)
            raise
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

        Several callers may wait for the same start. When all of them are cancelled, what was
        started ends, and the next call starts again. Raises BrokenWorker when no worker can start:
        an import or the initializer failed.
        """
        if self._scheduler is None:
            if self._is_closed:
                raise RuntimeError("cannot start a pool that was closed")
            self._loop = asyncio.get_running_loop()
            self._scheduler = Scheduler(self._loop, self._config)
        scheduler = self._scheduler
        self._check_loop()
        scheduler.waiting_for_start += 1
        try:
            await asyncio.shield(scheduler.manager.started)
        except asyncio.CancelledError:
            if scheduler.waiting_for_start == 1 and not scheduler.was_start_reported:
                await self._abandon_start(scheduler)
            raise
        finally:
            scheduler.waiting_for_start -= 1
        scheduler.was_start_reported = True
        if (why := scheduler.broken) is not None:
            await self.close(0)
            raise BrokenWorker(why) from scheduler.manager.cause

    async def _abandon_start(self, scheduler: Scheduler) -> None:
        """End what a cancelled start has started; meanwhile others may start the pool again."""
        self._scheduler = None
        ended = asyncio.get_running_loop().create_future()
        self._endings.append(ended)
        try:
            await _end(scheduler, 0)
        finally:
            self._endings.remove(ended)
            ended.set_result(None)

    async def run(
        self,
        function: Callable[[*Ts], T] | Callable[..., T],
        /,
        *args: *Ts,
        kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        queue_timeout: float | None = None,
        idempotent: bool = False,
        zero_copy_result: bool = False,
        zero_copy_args: bool = False,
        kill_on_cancel: bool = False,
    ) -> T:
        """Run `function(*args, **kwargs)` in a worker; return its result or raise its exception.

        `timeout` in seconds counts from the start of the task, whose worker is killed;
        `queue_timeout` limits the wait for a worker; both raise TimeoutError. An `idempotent` task
        is retried once when its worker dies; every other one raises BrokenWorker. With
        `zero_copy_result` bytes and large buffers of the result are read-only memoryviews of shared
        memory, freed when released or collected; with `zero_copy_args` those of the arguments are,
        for as long as the worker keeps them. Raises QueueFull at once when `max_queue` tasks wait,
        TypeError for a time that is not a number.
        """
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
        scheduler, loop = self._scheduler, self._loop
        if scheduler is None or _get_running_loop() is not loop or self._is_closed:
            scheduler = self._open()
        assert loop is not None
        future: asyncio.Future[T] = loop.create_future()
        values = None if self._variables is None else self._variables.values()
        keywords = dict(kwargs) if kwargs else {}
        task = scheduler.submit(function, args, keywords, future, options, values)
        try:
            return await future
        except asyncio.CancelledError:
            scheduler.cancel(task)
            raise
        finally:
            del task, future  # they refer to the exception, whose traceback refers to this frame

    async def map(
        self,
        function: Callable[..., T],
        /,
        *iterables: Iterable[Any],
        limit: int | None = None,
        **options: Any,
    ) -> AsyncIterator[T]:
        """Yield the results of `function` for the items of iterables, in their order.

        At most `limit` tasks (default: 8 a worker) are submitted ahead of the consumer. `options`
        are those of `run`. An exception is raised in place of its result. Leaving the loop cancels
        the remaining tasks, with `contextlib.aclosing` at once. Raises ValueError for a `limit`
        below 1.
        """
        ahead: deque[asyncio.Future[T]] = deque()
        calls = zip(*iterables, strict=False)
        limit = self._limit(limit)
        try:
            while True:
                for args in itertools.islice(calls, limit - len(ahead)):
                    ahead.append(asyncio.ensure_future(self.run(function, *args, **options)))
                if not ahead:
                    return
                result = await ahead[0]
                ahead.popleft()
                yield result
                del result  # keep no reference while the consumer uses it
        finally:
            await _cancel_all(ahead)

    async def as_completed(
        self,
        function: Callable[..., T],
        /,
        *iterables: Iterable[Any],
        limit: int | None = None,
        **options: Any,
    ) -> AsyncIterator[T]:
        """Yield results as `map` does, but in the order in which tasks complete."""
        pending: set[asyncio.Future[T]] = set()
        calls = zip(*iterables, strict=False)
        limit = self._limit(limit)
        try:
            while True:
                for args in itertools.islice(calls, limit - len(pending)):
                    pending.add(asyncio.ensure_future(self.run(function, *args, **options)))
                if not pending:
                    return
                done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for future in done:
                    pending.discard(future)
                    yield future.result()
        finally:
            await _cancel_all(pending)

    async def stream(
        self,
        function: Callable[..., Iterable[T]],
        /,
        *args: object,
        kwargs: Mapping[str, Any] | None = None,
        limit: int = 16,
        timeout: float | None = None,
        queue_timeout: float | None = None,
        zero_copy_result: bool = False,
        kill_on_cancel: bool = False,
    ) -> AsyncIterator[T]:
        """Yield the items of the iterable that `function` returns, such as a generator's.

        The worker sends each item at once, and is at most `limit` items ahead of the consumer. It
        is busy until the iterable has ended; leaving the loop ends the iterable at its next item
        (with `contextlib.aclosing` at once). `timeout` is for the whole stream.
        """
        if operator.index(limit) < 1:
            raise ValueError("limit must be at least 1")
        options = Options(timeout, queue_timeout, False, zero_copy_result, kill_on_cancel, False)
        scheduler, future = self._open(), self._new_future()
        values = None if self._variables is None else self._variables.values()
        items: deque[T] = deque()
        wakeup = asyncio.Event()
        keywords = dict(kwargs or ())
        task = scheduler.submit(function, args, keywords, future, options, values, credit=limit)

        def receive(item: T) -> None:
            items.append(item)
            wakeup.set()

        task.on_item = receive
        future.add_done_callback(lambda _: wakeup.set())
        taken = 0
        try:
            while items or not future.done():
                if not items:
                    wakeup.clear()
                    await wakeup.wait()
                    continue
                yield items.popleft()
                taken += 1
                if taken * 2 >= limit:
                    scheduler.grant(task, taken)
                    taken = 0
            await future
        finally:
            if future.done():
                if not future.cancelled():
                    future.exception()  # it is retrieved: nobody else can
            else:
                scheduler.stop_stream(task)
                future.cancel()
                scheduler.cancel(task)

    def _open(self) -> Scheduler:
        """Return the scheduler of an open pool on the running loop."""
        scheduler = self._scheduler
        if scheduler is None or self._is_closed:
            raise RuntimeError("a pool runs tasks between start() and close()")
        self._check_loop()
        return scheduler

    def _new_future(self) -> asyncio.Future[Any]:
        assert self._loop is not None
        return self._loop.create_future()

    def _limit(self, limit: int | None) -> int:
        if limit is None:
            ahead, most = AHEAD * self._config.workers, self._config.max_queue
            return ahead if most is None else max(1, min(ahead, most))
        if operator.index(limit) < 1:
            raise ValueError("limit must be at least 1, or None")
        return limit

    def _check_loop(self) -> None:
        if _get_running_loop() is not self._loop:  # None in a forked child, too
            if self._scheduler is not None and self._scheduler.broken is not None:
                raise BrokenWorker(self._scheduler.broken)
            raise RuntimeError("this pool belongs to the loop that it was started on")

    def stats(self) -> Stats:
        """Return counts of tasks and workers so far; raise RuntimeError before `start`."""
        if self._scheduler is None:
            raise RuntimeError("stats() needs a pool that was started")
        return _stats(self._scheduler)

    def initializer_results(self) -> list[Any]:
        """Return what the initializer returned in each live worker; None without one."""
        if self._scheduler is None:
            return []
        connections = self._scheduler.manager.connections.values()
        return [each.initializer_result for each in connections if each.pid is not None]

    async def close(self, grace: float | None = None) -> None:
        """Reject new tasks, wait `grace` seconds for the others (None: no limit), end the workers.

        Tasks that have not ended by then raise BrokenWorker where they are awaited. If `close` is
        cancelled, the workers are killed. No process of the pool is left in either case. Raises
        TypeError for a grace that is not a number, and closes nothing.
        """
        grace = check_seconds("grace", grace)
        scheduler = self._scheduler
        if scheduler is not None:
            self._check_loop()
        self._is_closed = True
        try:
            if scheduler is not None:
                await _end(scheduler, grace)
        finally:
            if self._endings:
                await asyncio.wait(self._endings)


async def _end(scheduler: Scheduler, grace: float | None) -> None:
    """Wait `grace` seconds for the tasks of a scheduler, and end it, also when cancelled."""
    try:
        await scheduler.drain(grace)
    finally:
        cancelled = None
        ending = asyncio.ensure_future(scheduler.end())
        while not ending.done():  # its time is limited: wait, even if all tasks are cancelled
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

    A task is in `queued`, then in `running` (a worker holds it), at last in `done`, `failed` or
    `cancelled` (its caller was cancelled, whether the task ran or not): in exactly one of them at
    any moment. A task that has timed out is in `failed`, also until its worker is killed; `crashed`
    are the failed ones whose worker died. `killed` counts workers that the pool killed, `restarts`
    those that died, whatever killed them. Over all tasks so far, in seconds, `queue_s` is the time
    until they were first sent to a worker, `run_s` their run time, and `transport_s` the remaining
    time until their results, which includes waiting behind tasks of the same worker.
    """

    queued: int
    running: int
    done: int
    failed: int
    cancelled: int
    crashed: int
    killed: int
    restarts: int
    pids: tuple[int, ...]
    queue_s: float
    run_s: float
    transport_s: float

    @property
    def memory(self) -> int | None:
        """The bytes (PSS) that the workers use now; reading it takes about 1 ms a worker."""
        return _memory(self.pids)


def _stats(scheduler: Scheduler) -> Stats:
    manager, accounting = scheduler.manager, scheduler.accounting
    pids = tuple(manager.pids())
    return Stats(
        queued=len(scheduler.queue),
        running=accounting.pending - len(scheduler.queue),
        done=accounting.done,
        failed=accounting.failed,
        cancelled=accounting.cancelled,
        crashed=accounting.crashed,
        killed=manager.killed,
        restarts=manager.restarts,
        pids=pids,
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


class ContextVariables:
    """The context variables whose values are sent with each task."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._variables = [_find_variable(path) for path in paths]

    def values(self) -> list[tuple[int, Any]]:
        """Return (position, value) of those that are set in the current context."""
        context = contextvars.copy_context()
        return [(i, context[v]) for i, v in enumerate(self._variables) if v in context]


def _find_variable(path: str) -> contextvars.ContextVar[Any]:
    module, _, name = path.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, contextvars.ContextVar):
        raise ValueError(f"context={path!r} is not the 'module:name' of a context variable")
    return found


async def _cancel_all(futures: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel futures, and wait until each has ended."""
    futures = list(futures)
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
