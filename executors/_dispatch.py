"""The dispatch: which worker gets which task when.

A worker holds more than one task only while the estimates of what it holds stay below BUDGET, and
a function that never ran is not queued behind anything. So a short task waits for a microsecond's
work at most, never for a long one; where an estimate was wrong, what waits is recalled.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from time import monotonic_ns
from typing import Any

from executors import _faults, _wire
from executors._errors import BrokenWorker, QueueFull
from executors._ledger import Ledger
from executors._link import Link
from executors._plan import Plan
from executors._queue import Queue
from executors._staff import Staff
from executors._task import Function, Functions, Future, Options, Task, is_with_gaps
from executors._watch import Watch

BUDGET = 300_000.0  # ns of work, by estimate, that a worker may hold


_dispatches: weakref.WeakSet[Dispatch] = weakref.WeakSet()


def _forbid() -> None:
    for dispatch in _dispatches:
        dispatch.broken = "this pool belongs to the process that forked this one: make another"


def _is_in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


os.register_at_fork(after_in_child=_forbid)


class Dispatch(_faults.Faults):
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
        _dispatches.add(self)
        self._max_queue = max_queue
        self._claim = claim
        self._planned = False
        self._functions = Functions()
        self._watch = Watch(loop, self)
        self.queue = Queue()
        self.ledger = Ledger(loop)
        self.running = 0
        self.broken: str | None = None
        self.staff = Staff(loop, plan, self)

    @property
    def is_at_rest(self) -> bool:
        """Whether the next call finds a worker with nothing to do, and leaves the loop none."""
        return bool(self.staff.idle) and not self.queue and not self.staff.is_counting

    def submit(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        future: Future,
        options: Options,
        values: list[tuple[int, Any]] | None = None,
        at_once: bool = False,
    ) -> Task:
        """Queue a call; raise QueueFull, BrokenWorker, or what pickling the function raises.

        It leaves with others of the same turn of the loop, or `at_once`.
        """
        if self.broken is not None:
            raise BrokenWorker(self.broken)
        if type(function) is partial and not is_with_gaps(function):
            args, kwargs = (*function.args, *args), {**function.keywords, **kwargs}
            function = function.func
        known = self._functions.of(function)
        if self._max_queue is not None and len(self.queue) >= self._max_queue:
            self.flush()
            if len(self.queue) >= self._max_queue and (self.queue or not self._choose(known)):
                raise QueueFull(f"{len(self.queue)} tasks wait already: ask again later")
        task = Task(known, args, kwargs, future, options, values)
        self.queue.add(task)
        self.ledger.pending += 1
        if options.queue_timeout is not None:
            self._watch.wait_for_worker(task)
        if at_once or not (self._planned or self.running):
            self.flush()  # nobody to share a frame with: a turn of the loop would be lost
        elif not self._planned:
            self._planned = True
            self._loop.call_soon(self.flush)
        return task

    def flush(self) -> None:
        """Give workers what they may hold, in the order of the queue: one frame a worker."""
        self._planned = False
        queue = self.queue
        now = monotonic_ns()
        touched: set[Link] = set()
        try:
            while (task := queue.head()) is not None:
                link = self._choose(task.function)
                if link is None:
                    break
                queue.pop()
                if self._give(task, link, now):
                    touched.add(link)
        finally:  # also when Ctrl-C comes while an argument is pickled
            for link in touched:
                link.send()
                if len(link.tasks) > 1:
                    self._watch.look_behind()

    def _choose(self, function: Function) -> Link | None:
        staff = self.staff
        if staff.idle:
            return next(reversed(staff.idle))
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
            self.ledger.drop(task)
            return False
        task.begun = True
        try:
            link.put(task, task.function.estimate or BUDGET, now)
        except BaseException as error:  # what pickle raises for its arguments
            is_ctrl_c = isinstance(error, KeyboardInterrupt) and _is_in_main_thread()
            if is_ctrl_c:  # which is raised once, here
                task.future.cancel()
            self.ledger.fail(task, error)
            if is_ctrl_c:
                raise
            return False
        self.running += 1
        self.ledger.queue_ns += now - task.submitted
        staff = self.staff
        staff.idle.pop(link, None)
        if link.left <= staff.near:
            staff.spent(link)
        if task.timer is not None or task.options.timeout is not None:
            self._watch.limit(task)
        return True

    def answered(self, link: Link, entries: list[_wire.Entry], blob: memoryview) -> None:
        """Take the results of a frame, and give the worker what it may hold now."""
        now = monotonic_ns()
        tasks, ledger = link.tasks, self.ledger
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
            ledger.run_ns += took
            ledger.transport_ns += now - task.sent - took
            if kind == _wire.PLAIN and not task.future.done():
                ledger.finish(task, payload)
            else:
                ledger.take(task, link.decoder, kind, payload, blob)
        if skipped:
            self.put_back(skipped)
        if not tasks:
            link.load = 0.0
            if entries[0][0]:
                self.staff.at_rest(link)
        if self.queue:
            self.flush()
