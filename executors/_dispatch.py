"""The dispatch: a queue of tasks, and which worker gets which of them when.

A worker holds more than one task only while the estimates of what it holds stay below BUDGET, and
a function that never ran is not queued behind anything. So a short task waits for a microsecond's
work at most, never for a long one; where an estimate was wrong, what waits is recalled.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from executors import _wire
from executors._errors import BrokenWorker, QueueFull, RemoteError, RemoteTraceback
from executors._link import Link
from executors._plan import Plan
from executors._staff import Staff
from executors._task import Function, Functions, Future, Options, Task
from executors._watch import Watch

BUDGET = 300_000.0  # ns of work, by estimate, that a worker may hold beyond its first task


class Dispatch:
    """Run calls on a staff of workers, for one event loop; futures are done as tasks end.

    `claim` is asked once before a task is first sent whether its future still wants it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        plan: Plan,
        max_queue: int | None = None,
        claim: Callable[[Any], bool] | None = None,
    ) -> None:
        self._loop = loop
        self._pid = os.getpid()
        self._max_queue = max_queue
        self._claim = claim
        self._queue: deque[Task] = deque()
        self._gone = 0  # tasks in the queue that nobody waits for
        self._planned = False
        self._watch = Watch(loop, self)
        self._functions = Functions()
        self.running = self.done = self.failed = 0
        self.queue_ns = self.run_ns = self.transport_ns = 0
        self.broken: str | None = None
        self.empty: asyncio.Future[None] | None = None
        self.staff = Staff(loop, plan, self)

    @property
    def queued(self) -> int:
        """The tasks that no worker has."""
        return len(self._queue) - self._gone

    def submit(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        future: Future,
        options: Options,
        values: list[tuple[int, Any]] | None = None,
    ) -> Task:
        """Queue a call; raise QueueFull, BrokenWorker, or what pickling the function raises."""
        if self.broken is not None:
            raise BrokenWorker(self.broken)
        if os.getpid() != self._pid:
            raise RuntimeError("this pool belongs to the process that forked this one: make one")
        if self._max_queue is not None and self.queued >= self._max_queue:
            self.flush()
            if self.queued >= self._max_queue:
                raise QueueFull(f"{self.queued} tasks wait already: ask again later")
        task = Task(self._functions.of(function), args, kwargs, future, options, values)
        self._queue.append(task)
        if options.queue_timeout is not None:
            self._watch.wait_for_worker(task, options.queue_timeout)
        if not self.running and not self._planned:
            self.flush()  # nobody to share a frame with: a turn of the loop would only be lost
        elif not self._planned:
            self._planned = True
            self._loop.call_soon(self.flush)
        return task

    def cancel(self, task: Task) -> None:
        """Forget a task: out of the queue, or its result when it comes; or kill, if so asked."""
        if task.link is None:
            self._forget(task)
        elif task.options.kill:
            self._stop(task)

    # Queue to workers

    def flush(self) -> None:
        """Give workers what they may hold, in the order of the queue: one frame a worker."""
        self._planned = False
        queue = self._queue
        now = monotonic_ns()
        touched: list[Link] = []
        while queue:
            task = queue[0]
            if not task.gone:
                link = self._choose(task.function)
                if link is None:
                    break
                if self._give(task, link, now):
                    touched.append(link)
            else:
                self._gone -= 1
            queue.popleft()
        for link in set(touched):
            link.send()
            if len(link.tasks) > 1:
                self._watch.look_behind()

    def _choose(self, function: Function) -> Link | None:
        staff = self.staff
        if staff.idle:
            return staff.idle[-1]
        estimate = function.estimate
        if estimate is None or estimate >= BUDGET:
            return None
        best, least = None, BUDGET - estimate
        for link in staff.open:
            if link.load < least and not link.backlog:
                best, least = link, link.load
        return best

    def _give(self, task: Task, link: Link, now: int) -> bool:
        if not task.begun and self._claim is not None and not self._claim(task.future):
            self._end(task)
            return False
        task.begun = True
        try:
            link.put(task, task.function.estimate or BUDGET, now)
        except Exception as error:  # noqa: BLE001 - what pickle raises for its arguments
            self._fail(task, error)
            return False
        self.running += 1
        self.queue_ns += now - task.submitted
        staff = self.staff
        if staff.idle and staff.idle[-1] is link:
            staff.idle.pop()
        if link.left <= staff.near:
            staff.spent(link)
        if task.timer is not None or task.options.timeout is not None:
            self._watch.limit(task)
        return True

    # Workers to futures

    def answered(self, link: Link, entries: list[_wire.Entry], blob: memoryview) -> None:
        """Take the results of a frame, and give the worker what it may hold now."""
        now = monotonic_ns()
        tasks = link.tasks
        skipped: list[Task] = []
        for sequence, kind, payload, took in entries:
            task = tasks.pop(sequence, None)
            if task is None:
                self._unasked(link, sequence, kind, payload, blob)
                continue
            self.running -= 1
            link.load -= task.cost
            if kind == _wire.SKIPPED:
                skipped.append(task)
                continue
            task.function.learn(took)
            self.run_ns += took
            self.transport_ns += now - task.sent - took
            if kind == _wire.FAILED:
                self._fail(task, _raised(payload))
            elif task.future.done():
                link.decoder.discard(kind, payload)
                self._end(task)
            else:
                self._finish(link, task, kind, payload, blob)
        if skipped:
            self._put_back(skipped)
        if not tasks:
            link.load = 0.0
            if entries[0][0]:
                self.staff.at_rest(link)
        if self._queue:
            self.flush()

    def _finish(self, link: Link, task: Task, kind: int, payload: Any, blob: memoryview) -> None:
        try:
            value = link.decoder.decode(kind, payload, blob, task.options.lease)
        except Exception as error:  # noqa: BLE001 - what loading a result raises is its caller's
            self._fail(task, error)
            return
        self.done += 1
        task.future.set_result(value)
        if task.timer is not None:
            task.timer.cancel()
        if self.empty is not None:
            self._check_empty()

    def _unasked(self, link: Link, sequence: int, kind: int, payload: Any, blob: memoryview) -> None:
        if sequence == 0:
            if kind == _wire.FAILED:
                self.staff.not_ready(link, _raised(payload))
            else:
                self.staff.ready(link, payload)
        elif kind not in {_wire.FAILED, _wire.SKIPPED}:
            link.decoder.discard(kind, payload)

    def _fail(self, task: Task, error: BaseException) -> None:
        self.failed += 1
        if not task.future.done():
            if isinstance(error, StopIteration):  # no future of asyncio takes it
                cause, error = error, RuntimeError(f"the task raised {error!r}")
                error.__cause__ = cause
            task.future.set_exception(error)
        self._end(task)

    def _end(self, task: Task) -> None:
        task.gone = True
        if task.timer is not None:
            task.timer.cancel()
        if self.empty is not None:
            self._check_empty()

    # What goes wrong

    def give_up(self, task: Task, error: BaseException) -> None:
        """Fail a task wherever it is: out of the queue, or with the worker that runs it."""
        if task.gone:
            return
        if task.link is None:
            self._forget(task)
        else:
            self._stop(task)
        self._fail(task, error)

    def _forget(self, task: Task) -> None:
        if not task.gone:
            self._gone += 1
            self._end(task)

    def _stop(self, task: Task) -> None:
        """Kill the worker that runs a task; one that has not begun is let run: it is short."""
        link = task.link
        running = None if link is None else link.running()
        if link is not None and running is not None and running[0] is task:
            del link.tasks[task.sequence]
            self.running -= 1
            self._end(task)
            self.staff.kill(link)

    def requeue(self, tasks: list[Task]) -> None:
        """Queue again, in front, what workers have not begun."""
        self.running -= len(tasks)
        self._put_back(tasks)
        self.flush()

    def _put_back(self, tasks: list[Task]) -> None:
        for task in reversed(tasks):
            task.link = None
            if task.timer is not None:
                task.timer.cancel()
            if task.future.done():
                self._end(task)
            else:
                self._queue.appendleft(task)

    def died(self, tasks: list[Task], status: int | None) -> None:
        """Fail what a worker ran when it died, or try it once more where that is harmless."""
        again: list[Task] = []
        for task in tasks:
            if task.options.idempotent and not task.retried:
                task.retried = True
                again.append(task)
            else:
                self.running -= 1
                self.staff.crashed += 1
                self._fail(task, BrokenWorker("the worker ended before its result came", status))
        if again:
            self.requeue(again)

    def fail_all(self, why: str) -> None:
        """Fail every task that waits, and refuse those to come."""
        self.broken = self.broken or why
        queue, self._queue, self._gone = self._queue, deque(), 0
        for task in queue:
            if not task.gone:
                self._fail(task, BrokenWorker(why))

    # The end

    def cancel_queued(self) -> None:
        """Cancel what no worker has."""
        for task in self._queue:
            if not task.gone and task.future.cancel():
                self._forget(task)

    async def drain(self, grace: float | None) -> None:
        """Wait until no task is queued or running, `grace` seconds at most; then drop the rest."""
        self.empty = self._loop.create_future()
        self._check_empty()
        await asyncio.wait([self.empty], timeout=grace)
        self.fail_all("the pool is closed")
        for link in list(self.staff.links.values()):
            tasks, link.tasks = list(link.tasks.values()), {}
            if tasks:
                self.staff.kill(link)
            for task in tasks:
                self.running -= 1
                self._fail(task, BrokenWorker("the pool was closed while the task ran"))

    def _check_empty(self) -> None:
        if self.empty is not None and not self.empty.done() and not self.queued and not self.running:
            self.empty.set_result(None)


def _raised(payload: tuple[bytes, str]) -> BaseException:
    """Load the exception of a worker, with its traceback there as its cause."""
    data, trace = payload
    error: BaseException
    try:
        error = pickle.loads(data)  # noqa: S301 - from our own child
        error.__cause__ = RemoteTraceback(trace)
    except Exception as wrong:  # noqa: BLE001 - proven to load there, but modules may differ
        error = RemoteError(f"{wrong!r}, in loading an exception:\n{trace}")
    return error
