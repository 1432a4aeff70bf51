"""The time limits of tasks: `queue_timeout` and `timeout`.

The times of a running task come from the status block, so that no message is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic_ns

from pipepool.scheduling.accounting import Accounting
from pipepool.workers.worker_connection import Options, Task, WorkerConnection, in_empty_context

START_GRACE = 1.0  # s that a late start is tolerated, and then s without any transfer


class Deadlines:
    """The timers of tasks, one for each.

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
