"""The end of each task: its future, its time limits, its metrics, and the counts of a pool."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any, Literal

from pipepool.exceptions import TaskExit, error_text
from pipepool.workers.protocol import Decoder
from pipepool.workers.worker_connection import Options, Task, WorkerConnection, in_empty_context

Outcome = Literal["done", "failed", "cancelled"]

START_GRACE = 1.0  # s that a late start is tolerated, and then s without any transfer

log = logging.getLogger("pipepool")


@dataclass(frozen=True)
class TaskMetrics:
    """What a pool passes to its `metrics` callback at the end of each task.

    `queue_s` is the time until the task was sent to a worker, None if it never was; `run_s` its run
    time in the worker, None if the worker returned no result.
    """

    function: str
    outcome: Outcome
    queue_s: float | None
    run_s: float | None


class Accounting:
    """Counts each task once, from submission to its end; sums of times are in ns."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        observer: Callable[[TaskMetrics], object] | None = None,
    ) -> None:
        self.observer = observer
        self.submitted = self.done = self.failed = self.cancelled = self.crashed = 0
        self.queue_ns = self.run_ns = self.transport_ns = 0
        self._empty = loop.create_future()
        self._is_closing = False
        self._has_end_hooks = observer is not None  # or closing

    @property
    def pending(self) -> int:
        """The number of tasks that have not ended."""
        return self.submitted - self.done - self.failed - self.cancelled

    def finish(self, task: Task, value: Any) -> None:
        """End a task with its result."""
        self.done += 1
        task.is_ended, task.connection = True, None
        try:
            task.future.set_result(value)
        except BaseException:  # noqa: BLE001
            log_callback_error(task)
        if task.timer is not None:
            task.timer.cancel()
        if self._has_end_hooks:
            self._run_end_hooks(task, "done")

    def finish_with(
        self, task: Task, decoder: Decoder, kind: int, payload: Any, blob: memoryview
    ) -> None:
        """End a task with the result that its worker sent."""
        if task.future.done():
            decoder.discard(kind, payload)
            self.drop(task)
        else:
            try:
                value = decoder.decode(kind, payload, blob, task.options.zero_copy_result)
            except BaseException as error:  # noqa: BLE001 - what loading a result raises
                self.fail(task, error)
            else:
                self.finish(task, value)

    def fail(self, task: Task, error: BaseException) -> None:
        """End a task with an exception, unless its caller cancelled it."""
        if task.is_ended:
            return
        outcome: Outcome = "cancelled" if task.future.done() else "failed"
        if not task.future.done():
            if not isinstance(error, Exception):  # it would end the application
                code = error.code if isinstance(error, SystemExit) else None
                exit_error = TaskExit(
                    f"the task, or pickling for it, raised {error_text(error)}", code
                )
                exit_error.__cause__ = error
                error = exit_error
            if isinstance(error, StopIteration):  # no asyncio future accepts it
                cause, error = error, RuntimeError(f"the task raised {error_text(error)}")
                error.__cause__ = cause
            try:
                task.future.set_exception(error)
            except BaseException:  # noqa: BLE001
                log_callback_error(task)
        self.drop(task, outcome)

    def interrupt(self, task: Task, error: BaseException) -> None:
        """End a task whose end was interrupted by an exception such as KeyboardInterrupt."""
        if task.is_ended and not task.future.done():
            self.done -= 1
            task.is_ended = False
        self.fail(task, error)

    def drop(self, task: Task, outcome: Outcome = "cancelled") -> None:
        """End a task without setting its future."""
        if task.is_ended:
            return
        task.is_ended, task.connection = True, None
        if task.timer is not None:
            task.timer.cancel()
        if outcome == "failed":
            self.failed += 1
        else:
            self.cancelled += 1
        if self._has_end_hooks:
            self._run_end_hooks(task, outcome)

    def _run_end_hooks(self, task: Task, outcome: Outcome) -> None:
        """Complete `wait_until_empty`, and call the observer."""
        if self._is_closing:
            self._check()
        if self.observer is None:
            return
        waited = (task.sent - task.submitted) / 1e9 if task.sent else None
        ran = None if task.run_ns is None else task.run_ns / 1e9
        function = task.function.callable
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        try:
            self.observer(TaskMetrics(name, outcome, waited, ran))
        except BaseException as error:  # it must not harm the pool
            if isinstance(error, KeyboardInterrupt) and is_in_main_thread():
                raise  # Ctrl-C
            log.exception("the metrics callback raised")

    async def wait_until_empty(self, seconds: float | None) -> None:
        """Wait until every task has ended, at most `seconds`."""
        self._is_closing = self._has_end_hooks = True
        self._check()
        await asyncio.wait([self._empty], timeout=seconds)

    def _check(self) -> None:
        if not self.pending and not self._empty.done():
            self._empty.set_result(None)


class Deadlines:
    """The time limits of tasks, `queue_timeout` and `timeout`: one timer for each task.

    The times of a running task come from the status block, so that no message is needed.
    `fail(task, error)` ends a task wherever it is. `kill(connection)` kills a worker at once.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        accounting: Accounting,
        fail: Callable[[Task, TimeoutError], None],
        kill: Callable[[WorkerConnection], None],
    ) -> None:
        self._loop, self._accounting, self._fail, self._kill = loop, accounting, fail, kill

    def limit_wait(self, task: Task) -> None:
        """Start the timer of queue_timeout, which also limits the wait of a requeued task."""
        seconds = task.options.queue_timeout
        if seconds is not None:
            if task.start_by is None:
                task.start_by = self._loop.time() + seconds
            error = TimeoutError(f"no worker was free within queue_timeout={seconds:g} s")
            task.timer = in_empty_context(
                self._loop.call_at, task.start_by, self._fail, task, error
            )

    def limit_run(self, task: Task) -> None:
        """Replace the timer of queue_timeout by one for the start and the end of a sent task."""
        if task.timer is not None:
            task.timer.cancel()
            task.timer = None
        limit = _start_limit(task.options)
        if limit is not None:
            self._check_later(task, limit)

    def _check_later(self, task: Task, seconds: float, transferred: int = -1) -> None:
        task.timer = in_empty_context(
            self._loop.call_later, seconds, self._check_times, task, transferred
        )

    def _check_times(self, task: Task, transferred: int = -1) -> None:
        """Kill the worker if the task runs too long, or is neither running nor being transferred.

        `transferred` is `connection.transferred` at the previous check, -1 at the first.
        """
        connection, sequence = task.connection, task.sequence
        timeout = task.options.timeout
        if connection is None or task.is_ended:
            return
        running = connection.running()
        if running is not None and running[0] is task:
            if timeout is not None:  # queue_timeout limits the start only
                self._end_or_check_later(task, timeout, (monotonic_ns() - running[1]) / 1e9)
            return
        limit = timeout if connection.has_started(task) else _start_limit(task.options)
        if limit is None:
            return
        left = max(limit, 0.0) + START_GRACE - (monotonic_ns() - task.sent) / 1e9
        if running is None and connection.tasks.get(sequence) is task:
            connection.read()
            if connection.tasks.get(sequence) is not task:  # it has ended, or is queued again
                return
            if left <= 0:
                if connection.transferred == transferred:
                    what = "return the result" if connection.has_started(task) else "start the task"
                    error = TimeoutError(f"the worker did not {what} within {limit:g} s")
                    connection.is_killed_for_task = True  # its other tasks are not to blame
                    self._kill(connection)  # it is stopped, or has no CPU
                    self._accounting.fail(task, error)
                else:  # the arguments or the result are still being transferred
                    self._check_later(task, START_GRACE, connection.transferred)
                return
        if left <= 0:  # other tasks run before it
            left = START_GRACE
        if timeout is None or left < timeout:
            self._check_later(task, left)
        else:  # it may start before the next check: use the shorter time
            self._end_or_check_later(task, timeout, 0.0)

    def _end_or_check_later(self, task: Task, timeout: float, ran: float) -> None:
        """Fail a task that ran longer than its timeout, and kill its worker; else check later."""
        if ran < timeout:
            self._check_later(task, timeout - ran)
        else:
            error = TimeoutError(f"the task ran longer than timeout={timeout:g} s and was killed")
            self._fail(task, error)


def _start_limit(options: Options) -> float | None:
    """Return the seconds in which a worker must start a sent task, without START_GRACE."""
    limits = (options.timeout, options.queue_timeout)
    return min((each for each in limits if each is not None), default=None)


def log_callback_error(task: Task) -> None:
    """Log what a done callback raised, such as sys.exit(): it must not end an executor's loop."""
    if not isinstance(task.future, concurrent.futures.Future):
        raise  # noqa: PLE0704 - Ctrl-C, on the application's own loop
    log.exception("a done callback raised")


def is_in_main_thread() -> bool:
    """Whether this is the main thread, in which Python raises KeyboardInterrupt."""
    return threading.current_thread() is threading.main_thread()
