"""The scheduler: which worker runs which task when, and how each task ends.

A worker holds several tasks only if the sum of their estimated run times is below BUDGET. A
function that never ran has no estimate and waits for an idle worker. So a short task waits for less
than BUDGET of other work, never for a long task. If a task runs longer than estimated, the tasks
behind it are revoked and sent to other workers.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from time import monotonic_ns
from typing import Any

from pipepool.configuration import PoolOptions
from pipepool.exceptions import BrokenWorker, QueueFull, TaskExit, error_text, worker_ended
from pipepool.scheduling.accounting import (
    Accounting,
    Deadlines,
    is_in_main_thread,
    log,
    log_callback_error,
)
from pipepool.workers import shared_memory
from pipepool.workers.protocol import FAILED, ITEM, PLAIN, SKIPPED, Entry, load_exception
from pipepool.workers.worker_connection import (
    DEFAULTS,
    SUSPECT,
    Function,
    Functions,
    Future,
    Options,
    Task,
    WorkerConnection,
    WorkerState,
    has_placeholders,
    in_empty_context,
)
from pipepool.workers.worker_manager import WorkerManager

BUDGET = 300_000.0  # ns: limit of the sum of the estimates of a worker's tasks
BATCH = 100_000.0  # ns: the same for the tasks of a frame; about one wake-up of a worker
STUCK = 5_000_000  # ns that a task runs before those behind it are revoked
STUCK_CHECK = 0.01  # s between two checks for such a task
VISIBLE = 0.002  # s after which a write to the status block is visible to the other process
MOST_DEATHS = 3  # a task fails after so many workers died before starting it
MOST_RETURNS = 100  # or after so many workers received and skipped it: that is no revocation

_schedulers: weakref.WeakSet[Scheduler] = weakref.WeakSet()


class Scheduler:
    """Runs tasks on the workers of one event loop, and completes their futures.

    `claim(future)` is called once, before a task is first sent; the task is dropped if it returns
    False.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: PoolOptions,
        claim: Callable[[Any], bool] | None = None,
    ) -> None:
        self._loop = loop
        self._max_queue = options.max_queue
        self._claim = claim
        self._functions = Functions()
        self._flush_is_scheduled = self._check_is_scheduled = False
        self.queue = Queue()
        self.accounting = Accounting(loop, options.metrics)
        self.running = 0  # tasks that workers hold, including those that have timed out
        self.waiting_for_start = 0  # callers of the pool's `start`
        self._cancellations = Cancellations()
        self.was_start_reported = False  # a call of `start` has returned
        self.broken: str | None = None  # why no worker can be started, for good
        self.is_copy = False  # in a process that was forked meanwhile
        self.manager = WorkerManager(loop, options, self)
        self._deadlines = Deadlines(loop, self.accounting, self._fail_and_stop, self.manager.kill)
        _schedulers.add(self)

    # Submit

    @property
    def can_send_at_once(self) -> bool:
        """Whether an idle worker can take the next call, without any work for the loop."""
        return bool(self.manager.idle) and not self.queue and not self.manager.counts_tasks

    def submit(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        future: Future,
        options: Options,
        variables: list[tuple[int, Any]] | None = None,
        at_once: bool = False,
        credit: int | None = None,
    ) -> Task:
        """Queue a call; raise QueueFull, BrokenWorker, or what pickling the function raises.

        It is sent with others of the same iteration of the loop, or immediately with `at_once`.
        With `credit` the result is an iterable: the worker sends that many items and then waits for
        `grant`.
        """
        if self.broken is not None:
            raise BrokenWorker(self.broken)
        if type(function) is partial and not has_placeholders(function):
            args, kwargs = (*function.args, *args), {**function.keywords, **kwargs}
            function = function.func
        known = self._functions.get(function)
        if self._max_queue is not None:
            if len(self.queue) >= self._max_queue:
                self._make_room(known, self._max_queue)
            if self._claim is not None:
                future.add_done_callback(self._cancellations.note)
        task = Task(known, args, kwargs, future, options, variables, credit)
        self.accounting.submitted += 1  # first: Ctrl-C may interrupt the next call
        if options.timeout is not None and options.timeout <= 0:
            self._notify(task)
            why = f"timeout={options.timeout:g} s leaves the task no time to run"
            self.accounting.fail(task, TimeoutError(why))
            return task
        self.queue.append(task)
        if at_once or not (self._flush_is_scheduled or self.running):
            self.flush()  # there is no other task to share a frame with
        elif not self._flush_is_scheduled:
            self._flush_is_scheduled = True
            self._loop.call_soon(self.flush)
        if options.queue_timeout is not None and task.connection is None and not task.is_ended:
            self._deadlines.limit_wait(task)  # after the flush: it may be 0
        return task

    def _make_room(self, function: Function, max_queue: int) -> None:
        """Send and drop queued tasks where possible; raise QueueFull if the queue is still full.

        While the pool starts, tasks that a starting worker will take at once do not count.
        """
        if not self.manager.started.done():
            max_queue += self.manager.count_starting()
        self.flush()
        has_room = self.manager.idle or self._least_busy(function) is not None
        if len(self.queue) >= max_queue:
            self._drop_cancelled()
        if len(self.queue) >= max_queue and (self.queue or not has_room):
            raise QueueFull(f"{len(self.queue)} tasks wait already: retry later")

    def flush(self) -> None:
        """Assign queued tasks to workers, oldest first."""
        self._flush_is_scheduled = False
        queue, idle = self.queue, self.manager.idle
        now = monotonic_ns()
        while (task := queue.head()) is not None:
            connection = next(reversed(idle)) if idle else self._least_busy(task.function)
            if connection is None:
                return
            self._fill(connection, now)

    def _fill(self, connection: WorkerConnection, now: int) -> None:
        """Send a worker one frame: the next task, and more while their estimates fit into BATCH."""
        queue, accounting, manager = self.queue, self.accounting, self.manager
        limit, sent = min(connection.load + BATCH, BUDGET), 0
        try:
            while (task := queue.head()) is not None:
                cost = task.function.estimate or BUDGET
                if sent and (
                    connection.load + cost > limit or connection.tasks_left <= manager.replace_at
                ):
                    return
                queue.pop()
                if not task.is_started:
                    if self._claim is not None and not self._claim(task.future):
                        accounting.drop(task)
                        return
                    task.is_started = True
                    accounting.queue_ns += now - task.submitted
                try:
                    connection.put(task, cost, now)
                except BaseException as error:  # noqa: BLE001 - what pickle raises for its arguments
                    self._fail_unsent(task, error)
                    return
                sent += 1
                if task.options is not DEFAULTS:
                    self._deadlines.limit_run(task)
        finally:
            if sent:
                self.running += sent
                manager.idle.pop(connection, None)
                try:
                    connection.send()
                except MemoryError:
                    self._take_back(connection)
                if len(connection.tasks) > 1:
                    self._schedule_check()
                elif not connection.tasks:
                    manager.release_if_empty(connection)
                if connection.tasks_left <= manager.replace_at:
                    manager.prepare_replacement(connection)

    def _take_back(self, connection: WorkerConnection) -> None:
        """After a frame could not be sent: fail its large tasks, and queue the others again."""
        large, small = connection.take_unsent()
        self.running -= len(large) + len(small)
        if large:
            self._put_back(small)
        for task in large or small:
            self.accounting.fail(task, MemoryError("the arguments do not fit into the memory"))

    def _fail_unsent(self, task: Task, error: BaseException) -> None:
        """Fail a task that cannot be pickled. Raise Ctrl-C again, since Python delivers it once."""
        is_ctrl_c = isinstance(error, KeyboardInterrupt) and is_in_main_thread()
        if is_ctrl_c:
            task.future.cancel()
        self.accounting.fail(task, error)
        if is_ctrl_c:
            if self.queue and not self._flush_is_scheduled:  # the tasks behind it are not sent yet
                self._flush_is_scheduled = True  # an executor's caller has a thread of its own
                in_empty_context(self._loop.call_soon_threadsafe, self.flush)
            raise error

    def _least_busy(self, function: Function) -> WorkerConnection | None:
        """Return the least busy worker that may hold one more task of a function, or None."""
        estimate = function.estimate
        if estimate is None or estimate >= BUDGET:
            return None
        best, least = None, BUDGET - estimate
        for connection in self.manager.open:
            if connection.load < least and not connection.has_backlog:
                best, least = connection, connection.load
        return best

    # Results

    def results_received(
        self, connection: WorkerConnection, entries: list[Entry], blob: memoryview
    ) -> None:
        """Handle the results of a frame; sums are updated once for all of them."""
        now = monotonic_ns()
        tasks, accounting = connection.tasks, self.accounting
        count = sent_ns = run_ns = 0
        load = 0.0
        # The last `runs` results are of `function`; `longest` is their longest run time in ns.
        function: Function | None = None
        runs = longest = 0
        skipped: list[Task] = []
        unhandled = iter(entries)
        task = None
        try:
            for sequence, kind, payload, took in unhandled:
                task = tasks.pop(sequence, None)
                if task is None or kind == ITEM:
                    self._handle_other(connection, task, sequence, kind, payload, blob)
                    continue
                load += task.cost
                self.running -= 1
                if kind == SKIPPED:
                    skipped.append(task)
                    continue
                count += 1
                sent_ns += task.sent
                run_ns += took
                task.run_ns = took
                if task.function is not function:
                    _add_runs(function, longest, runs)
                    function, longest, runs = task.function, took, 0
                elif took > longest:
                    longest = took
                runs += 1
                if kind == PLAIN and not (task.options.zero_copy_result or task.future.done()):
                    accounting.finish(task, payload)
                elif kind == FAILED:
                    self._fail_with(connection, task, load_exception(payload))
                else:
                    accounting.finish_with(task, connection.decoder, kind, payload, blob)
        except BaseException as error:  # Ctrl-C: fail one task, and handle the other results later
            if task is not None:
                accounting.interrupt(task, error)
            if rest := list(unhandled):
                in_empty_context(
                    self._loop.call_soon, self.results_received, connection, rest, blob
                )
            raise
        finally:
            _add_runs(function, longest, runs)
            connection.load -= load
            accounting.run_ns += run_ns
            accounting.transport_ns += count * now - sent_ns - run_ns
            self._use_worker(connection, entries, skipped)

    def _use_worker(
        self, connection: WorkerConnection, entries: list[Entry], skipped: list[Task]
    ) -> None:
        """After a worker sent results: requeue what it skipped, and assign it new tasks."""
        tasks = connection.tasks
        if connection.failures and any(kind < FAILED for _, kind, *_ in entries):
            connection.failures = 0
        if skipped:
            self._return(connection, skipped)
        if not tasks:
            connection.load = 0.0
            if connection.state is WorkerState.ACTIVE:
                self.manager.idle[connection] = None
            elif entries[0][0]:
                self.manager.release_if_empty(connection)
        if self.queue:
            self.flush()

    def _fail_with(self, connection: WorkerConnection, task: Task, error: BaseException) -> None:
        """End a task with its exception; log a worker whose tasks all fail after a sys.exit()."""
        if connection.failures or isinstance(error, TaskExit):
            connection.failures += 1
        if connection.failures == SUSPECT:
            log.warning(
                "worker %s may be broken: a task called sys.exit() or the like, and its last %d"
                " tasks failed, this one with %s",
                connection.pid,
                SUSPECT,
                error_text(error),
            )
        self.accounting.fail(task, error)

    def _return(self, connection: WorkerConnection, tasks: list[Task]) -> None:
        """Queue tasks again that a worker skipped; fail those that never start."""
        for task in tasks:
            task.returns += 1
            if task.returns >= MOST_RETURNS:
                why = f"{MOST_RETURNS} times a worker received the task and did not start it"
                error = BrokenWorker(f"{why}; worker {connection.pid} is ended", pid=connection.pid)
                self.accounting.fail(task, error)
                connection.is_killed_for_task = True  # its other tasks are not to blame
                self.manager.kill(connection)
        self._put_back(tasks)

    def _handle_other(
        self,
        connection: WorkerConnection,
        task: Task | None,
        sequence: int,
        kind: int,
        payload: Any,
        blob: memoryview,
    ) -> None:
        """Handle an item of a stream, the answer to a set-up, or a result that nobody awaits."""
        if task is not None:
            connection.tasks[sequence] = task
            self._handle_item(connection, task, payload, blob)
        elif sequence in connection.collected:
            connection.collected.remove(sequence)
        elif sequence:
            connection.decoder.discard(kind, payload)
        elif kind == FAILED:
            self.manager.initializer_failed(connection, load_exception(payload))
        else:
            pid, kind, payload = payload
            try:
                result = connection.decoder.decode(kind, payload, blob)
            except Exception:  # noqa: BLE001 - the result of the initializer is optional
                result = None
            self.manager.worker_ready(connection, pid, result)

    def _handle_item(
        self, connection: WorkerConnection, task: Task, payload: Any, blob: memoryview
    ) -> None:
        """Pass on an item of a stream; an item that cannot be loaded ends the stream."""
        if task.future.done() or task.on_item is None:
            connection.decoder.discard(*payload)
            return
        kind, item = payload
        try:
            item = connection.decoder.decode(kind, item, blob, task.options.zero_copy_result)
        except BaseException as error:  # noqa: BLE001 - what loading a value raises
            self.accounting.fail(task, error)
            connection.stop_stream(task)
        else:
            task.on_item(item)

    def grant(self, task: Task, items: int) -> None:
        """Allow a stream to send so many more items."""
        connection = task.connection
        if connection is not None and connection.tasks.get(task.sequence) is task:
            connection.grant(task, items)

    def stop_stream(self, task: Task) -> None:
        """End a stream whose consumer has gone."""
        connection = task.connection
        if connection is not None and connection.tasks.get(task.sequence) is task:
            connection.stop_stream(task)

    # Cancel and fail

    def cancel(self, task: Task) -> None:
        """Drop a task from the queue, or its result when it comes; kill its worker if requested."""
        if task.connection is None:
            self.queue.exclude(task)
            self.accounting.drop(task)
        elif task.options.kill_on_cancel:
            self._stop(task)

    def _drop_cancelled(self) -> None:
        """Drop queued tasks whose futures were cancelled.

        The oldest tasks are always checked. The whole queue is searched only in an executor, and
        only after a cancellation, because rejecting a call must be cheap. In a pool each cancelled
        caller drops its own task in the next iteration of the loop.
        """
        while (task := self.queue.head()) is not None and task.future.cancelled():
            self._drop_queued(task)
        if self._cancellations.were_noted:
            self._cancellations.were_noted = False  # before the search: others may come meanwhile
            for task in [each for each in self.queue if each.future.cancelled()]:
                self._drop_queued(task)

    def _drop_queued(self, task: Task) -> None:
        self._notify(task)
        self.queue.exclude(task)
        self.accounting.drop(task)

    def cancel_queued(self) -> None:
        """Cancel the queued tasks, except the oldest one per worker that is starting."""
        self.flush()
        for task in list(self.queue)[self.manager.count_starting() :]:
            try:
                is_cancelled = task.future.cancel()
            except BaseException:  # noqa: BLE001
                is_cancelled = True
                log_callback_error(task)
            if is_cancelled:
                self._notify(task)
                self.cancel(task)

    def _notify(self, task: Task) -> None:
        """Before a queued task ends: if its future was cancelled, notify those that wait for it."""
        if self._claim is not None and not (task.is_started or task.is_ended):
            self._claim(task.future)

    def _fail_and_stop(self, task: Task, error: BaseException) -> None:
        """Fail a task wherever it is: in the queue, or in a worker, which may be killed."""
        if task.connection is None:
            self._notify(task)
            self.queue.exclude(task)
        self._stop(task)  # first: a metrics callback may be interrupted by Ctrl-C
        self.accounting.fail(task, error)

    def _stop(self, task: Task) -> None:
        """Revoke all tasks of a task's worker, and kill the worker if it has started this task."""
        connection = task.connection
        if connection is not None and connection.tasks.get(task.sequence) is task:
            connection.revoke()
            in_empty_context(self._loop.call_later, VISIBLE, self._kill, connection, task)

    def _kill(self, connection: WorkerConnection, task: Task) -> None:
        """Kill a worker if it still runs a task; after the revocation it starts no other task."""
        running = connection.running()
        if running is not None and running[0] is task and connection.has_started(task):
            del connection.tasks[task.sequence]
            self.running -= 1
            self.accounting.drop(task)
            connection.is_killed_for_task = True  # each such kill ends a task: they are bounded
            self.manager.kill(connection)

    def _put_back(self, tasks: list[Task]) -> None:
        """Queue tasks again, except those whose futures are done."""
        for task in tasks:
            if task.timer is not None:
                task.timer.cancel()
                task.timer = None
            if task.future.done():
                self.accounting.drop(task)
        waiting = [task for task in tasks if not task.is_ended]
        self.queue.put_back(waiting)
        for task in waiting:
            self._deadlines.limit_wait(task)

    def _requeue(self, tasks: list[Task]) -> None:
        self.running -= len(tasks)
        self._put_back(tasks)
        self.flush()

    def never_started(self, tasks: list[Task], unsent: list[Task]) -> None:
        """Requeue the tasks that a dead worker had not started.

        `unsent` are tasks that cannot have caused its death, such as those that were never sent.
        """
        for task in tasks:
            task.deaths += 1
            if task.deaths >= MOST_DEATHS:  # loading it probably kills the workers
                why = f"{MOST_DEATHS} workers ended before they started the task"
                self.accounting.fail(task, BrokenWorker(why))
        self._requeue([*tasks, *unsent])

    def worker_died(self, tasks: list[Task], status: int | None, pid: int | None) -> None:
        """Fail the tasks that a worker ran when it died; retry those that are idempotent, once."""
        again: list[Task] = []
        for task in tasks:
            if task.options.idempotent and not task.is_retried:
                task.is_retried = True
                task.start_by = None  # its queue_timeout starts again
                again.append(task)
            else:
                self.running -= 1
                self.accounting.crashed += not task.future.done()
                error = worker_ended("the worker ended before it returned the result", status, pid)
                self.accounting.fail(task, error)
        if again:
            self._requeue(again)

    def results_lost(self, tasks: list[Task], error: Exception) -> None:
        """Fail tasks whose results do not fit into the memory, or cannot be read."""
        self.running -= len(tasks)
        for task in tasks:
            if isinstance(error, MemoryError):
                self.accounting.fail(task, MemoryError("the result does not fit into the memory"))
            else:
                self.accounting.fail(task, BrokenWorker(f"its worker sent damaged data: {error!r}"))

    def fail_all(self, why: str) -> None:
        """Fail every queued task, and reject new ones."""
        self.broken = self.broken or why
        while (task := self.queue.head()) is not None:
            self.queue.pop()
            self._notify(task)
            error = BrokenWorker(why)
            error.__cause__ = self.manager.cause
            self.accounting.fail(task, error)

    # Stuck tasks: times come from the status block, so that no message is needed

    def _schedule_check(self) -> None:
        """Check regularly for stuck tasks while any worker holds more than one task."""
        if not self._check_is_scheduled:
            self._check_is_scheduled = True
            in_empty_context(self._loop.call_later, STUCK_CHECK, self._check_for_stuck)

    def _check_for_stuck(self) -> None:
        self._check_is_scheduled = False
        now = monotonic_ns()
        for connection in self.manager.at_work():
            if len(connection.tasks) < 2:
                continue
            self._schedule_check()
            running = connection.running()
            if running is not None and (runs := now - running[1]) > STUCK:
                task = running[0]
                if min(connection.tasks) < task.sequence:  # the worker may hold finished results
                    connection.collect()
                task.function.add_runs(runs)  # raise its estimate: queue no task behind it
                connection.load += runs - task.cost
                task.cost = float(runs)
                connection.revoke()
                last = connection.sequence
                in_empty_context(
                    self._loop.call_later, VISIBLE, self._take_revoked, connection, task, last
                )

    def _take_revoked(self, connection: WorkerConnection, task: Task, last: int) -> None:
        """Requeue revoked tasks if the worker still runs `task`; else it reports skipped tasks."""
        if connection.status[shared_memory.RUNNING] != task.sequence:
            return
        behind = [each for each in connection.tasks if task.sequence < each <= last]
        tasks = [connection.tasks.pop(each) for each in behind]
        connection.load -= sum(each.cost for each in tasks)
        for each in tasks:
            each.returns += 1
        self.manager.release_if_empty(connection)  # it is idle if the task has ended meanwhile
        self._requeue(tasks)

    # The end

    async def drain(self, grace: float | None) -> None:
        """Wait until no task is queued or running, at most `grace` seconds."""
        self.flush()  # Ctrl-C may have left tasks in the queue
        await self.accounting.wait_until_empty(grace)

    async def end(self, deadline: float | None) -> None:
        """Fail the tasks that are left, kill the workers that run them, and end all others.

        `deadline` limits the endings, in loop time; None: they may take any time.
        """
        self.fail_all("the pool is closed")
        self.manager.stop_replacing()
        for connection in list(self.manager.connections.values()):
            connection.collect()
            tasks = [*connection.tasks.values(), *connection.crashed]
            connection.tasks, connection.crashed = {}, []
            self.running -= len(tasks)
            if tasks and connection.state is not WorkerState.DEAD:
                self.manager.kill(connection)
            for task in tasks:
                self.accounting.fail(task, BrokenWorker("the pool was closed while the task ran"))
        await self.manager.close(deadline)


class Queue:
    """Tasks that wait for a worker, oldest first. Ended tasks are removed late and not counted."""

    def __init__(self) -> None:
        self._tasks: deque[Task] = deque()
        self._ended = 0
        self.append = self._tasks.append  # queues a new task
        self.pop = self._tasks.popleft  # removes the task that `head` returned

    def __len__(self) -> int:
        return len(self._tasks) - self._ended

    def __iter__(self) -> Iterator[Task]:
        return (task for task in self._tasks if not task.is_ended)

    def put_back(self, tasks: list[Task]) -> None:
        """Queue tasks again that were removed, in the order of their submission."""
        if not tasks:
            return
        newest = max(task.submitted for task in tasks)
        merged = list(tasks)
        while self._tasks and self._tasks[0].submitted < newest:
            merged.append(self._tasks.popleft())
        merged.sort(key=lambda task: task.submitted, reverse=True)
        for task in tasks:
            task.connection = None
        self._tasks.extendleft(merged)

    def head(self) -> Task | None:
        """Return the oldest task, which remains in the queue; None if there is none."""
        tasks = self._tasks
        while tasks and tasks[0].is_ended:
            tasks.popleft()
            self._ended -= 1
        return tasks[0] if tasks else None

    def exclude(self, task: Task) -> None:
        """Stop counting a queued task that is about to end, and release its arguments."""
        if task.is_ended:
            return
        task.args, task.kwargs, task.extra = (), {}, None
        self._ended += 1
        if 2 * self._ended > len(self._tasks):
            remaining = [each for each in self if each is not task]
            self._tasks.clear()
            self._tasks.extend(remaining)
            self._ended = 0


class Cancellations:
    """Notes that a future was cancelled. Done futures keep a reference to this object only."""

    def __init__(self) -> None:
        self.were_noted = False

    def note(self, future: Any) -> None:
        """Handle the end of a future, in any thread."""
        if future.cancelled():
            self.were_noted = True


def _add_runs(function: Function | None, longest: int, runs: int) -> None:
    if function is not None:
        function.add_runs(longest, runs)


def _reject_in_fork() -> None:
    for scheduler in _schedulers:
        scheduler.broken = "this pool belongs to the process that forked this one: create another"
        scheduler.is_copy = True
        scheduler.manager.detach()


os.register_at_fork(after_in_child=_reject_in_fork)
