"""PipePool: run blocking functions in worker processes from an event loop, without threads."""

from __future__ import annotations

import asyncio
import itertools
import operator
from asyncio import _get_running_loop
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar, TypeVarTuple

from pipepool.configuration import PoolOptions, accept_fields
from pipepool.exceptions import BrokenWorker
from pipepool.scheduling.scheduler import Scheduler
from pipepool.stats import Stats, stats_of
from pipepool.workers.worker import ContextVariables
from pipepool.workers.worker_connection import DEFAULTS, Options, check_seconds

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

ENDING_GRACE = 5.0  # s for idle workers to end after an exception in the body of `async with`
AHEAD = 8  # tasks per worker that `map` submits ahead of its consumer


class PipePool:
    """Worker processes of one event loop: `async with PipePool(2) as pool: await pool.run(f, x)`.

    * `initializer(*initargs)` runs in each worker before its first task, `finalizer()` at its end.
    * `preload` names modules that are imported once, before the workers are forked.
    * `max_tasks_per_child` is the number of tasks after which a worker is replaced. It then ends by
      itself, as in the standard executor: a thread, queue or finalizer that does not end keeps it,
      without a limit. After 10 s this is logged. There are at most 3 processes for each worker.
    * `max_queue` is the number of tasks that may wait for a worker; while the pool starts, one more
      may wait for each worker that is not ready.
    * `context` names context variables, "module:name", whose values are sent with each task.
    * `start_timeout` limits the start of each worker, in seconds. If none is ready by then, the
      start fails; later, a worker that exceeds it is killed and started again.
    * `busy_wait`: True: workers poll for up to 200 us before they sleep while tasks arrive in
      quick succession; False: never. None: 200 us if there are two CPUs more than workers; 150 us
      if there are as many CPUs as workers, more than one CPU and no cgroup quota; else never.
    * `shared_memory` is the size in bytes of each of a worker's two areas of shared memory: one for
      large arguments, one for large results. Pages are allocated on first use.
    * `metrics` is called on the loop with a TaskMetrics at the end of each task.

    >>> import asyncio
    >>> async def main():
    ...     async with PipePool(1) as pool:
    ...         print(await pool.run(divmod, 17, 5), [x async for x in pool.map(abs, [-1, 2])])
    >>> asyncio.run(main())
    (3, 2) [1, 2]
    """

    @accept_fields(PoolOptions)
    def __init__(self, options: PoolOptions) -> None:
        self._config = options
        self._variables = ContextVariables(options.context) if options.context else None
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
        if error is None:
            await self.close()
        else:
            await self._close(0.0, ENDING_GRACE)

    async def start(self) -> None:
        """Start the workers on the running loop, and wait until they can take tasks.

        Several callers may wait for the same start. If all of them are cancelled, the pool is shut
        down, and the next call starts it again. Raises BrokenWorker if no worker can start because
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
            is_last = scheduler.waiting_for_start == 1 and not scheduler.was_start_reported
            if is_last and not scheduler.is_copy:
                await self._abandon_start(scheduler)
            raise
        finally:
            scheduler.waiting_for_start -= 1
        scheduler.was_start_reported = True
        if (why := scheduler.broken) is not None:
            await self.close(0)
            raise BrokenWorker(why) from scheduler.manager.cause

    async def _abandon_start(self, scheduler: Scheduler) -> None:
        """Shut down a cancelled start; meanwhile other callers may start the pool again."""
        self._scheduler = None
        ended = asyncio.get_running_loop().create_future()
        self._endings.append(ended)
        try:
            await _end(scheduler, 0.0, 0.0)
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

        `timeout` limits the run time of the task, in seconds: a worker that exceeds it is killed.
        `queue_timeout` limits the wait for a worker. Both raise TimeoutError. If its worker dies,
        an `idempotent` task is retried once; any other task raises BrokenWorker. With
        `zero_copy_result` the bytes and large buffers of the result are read-only memoryviews of
        shared memory, which is freed when they are released or garbage-collected. With
        `zero_copy_args` the function receives such memoryviews for its arguments. Raises QueueFull
        at once if `max_queue` tasks wait, TypeError for a time that is not a number.
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
        except BaseException:
            is_abandoned = not future.done() or future.cancelled()  # by cancel() or close()
            if is_abandoned and not loop.is_closed():
                future.cancel()
                scheduler.cancel(task)
            raise
        finally:
            del task, future  # break the cycle: task, exception, traceback, this frame

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
                while done:
                    future = done.pop()
                    pending.discard(future)
                    result = future.result()
                    del future  # it would keep the result alive while the consumer uses the next
                    yield result
                    del result
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
                    future.exception()  # prevents "exception was never retrieved"
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
        scheduler = self._scheduler
        is_copy = scheduler is not None and scheduler.is_copy
        if is_copy or _get_running_loop() is not self._loop:
            if scheduler is not None and scheduler.broken is not None:
                raise BrokenWorker(scheduler.broken)
            raise RuntimeError("this pool belongs to the loop that it was started on")

    def stats(self) -> Stats:
        """Return counts of tasks and workers so far; raise RuntimeError before `start`."""
        if self._scheduler is None:
            raise RuntimeError("stats() needs a pool that was started")
        return stats_of(self._scheduler)

    def initializer_results(self) -> list[Any]:
        """Return what the initializer returned in each live worker; None without one."""
        if self._scheduler is None:
            return []
        return [each.initializer_result for each in self._scheduler.manager.live()]

    async def close(self, grace: float | None = None) -> None:
        """Reject new tasks, wait for the others, end the workers and wait until they have ended.

        Workers run their finalizers, wait for threads that tasks started and write queues of
        multiprocessing to the end. `grace` limits all of it together, in seconds. Then the workers
        are killed, with 0 at once; tasks that have not ended fail with BrokenWorker. None: no
        limit, as in the standard executor, so a thread that never ends makes `close` wait forever.
        The workers are also killed if `close` is cancelled. No process of the pool is left in any
        case. If `grace` is not a number, `close` raises TypeError and the pool remains open.
        """
        grace = check_seconds("grace", grace)
        await self._close(grace, grace)

    async def _close(self, grace: float | None, total: float | None) -> None:
        """Wait `grace` seconds for the tasks, and `total` seconds for these and the workers."""
        scheduler = self._scheduler
        if scheduler is not None:
            self._check_loop()
        self._is_closed = True
        try:
            if scheduler is not None:
                await _end(scheduler, grace, total)
        finally:
            if self._endings:
                await asyncio.wait(self._endings)


async def _end(scheduler: Scheduler, grace: float | None, total: float | None) -> None:
    """Wait `grace` s for the tasks and `total` s for all of it; kill the workers when cancelled."""
    now = asyncio.get_running_loop().time
    deadline = None if total is None else now() + total
    try:
        await scheduler.drain(grace)
    except BaseException:
        deadline = now()
        raise
    finally:
        cancelled = None
        ending = asyncio.ensure_future(scheduler.end(deadline))
        while not ending.done():  # wait despite cancellation: from then on the time is limited
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError as error:
                cancelled = error
                scheduler.manager.stop_waiting()
                if ending.cancelled():
                    ending = asyncio.ensure_future(scheduler.end(now()))
        if cancelled is not None:
            raise cancelled


async def _cancel_all(futures: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel futures, and wait until each has ended."""
    futures = list(futures)
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
