"""The watch: deadlines of tasks, and tasks that run longer than those behind them can wait."""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import Protocol

from executors import _arena
from executors._link import Link, detached
from executors._staff import Staff
from executors._task import Task

STUCK = 5_000_000  # ns that a task runs before those behind it are recalled
EVERY = 0.01  # s between two looks for such a task
SEEN = 0.002  # s after which each side has seen the other's words, in any memory order


class Owner(Protocol):
    """Who has the tasks."""

    staff: Staff

    def requeue(self, tasks: list[Task]) -> None: ...
    def give_up(self, task: Task, error: BaseException) -> None: ...


class Watch:
    """Watch the tasks of one dispatch; times come from the workers' words, not from messages."""

    def __init__(self, loop: asyncio.AbstractEventLoop, owner: Owner) -> None:
        self._loop = loop
        self._owner = owner
        self._looking = False

    def wait_for_worker(self, task: Task) -> None:
        """Give a queued task up that no worker has taken in time, also when it is queued again."""
        seconds = task.options.queue_timeout
        if seconds is not None:
            if task.take_by is None:
                task.take_by = self._loop.time() + seconds
            error = TimeoutError(f"no worker was free within queue_timeout={seconds:g} s")
            give_up = self._owner.give_up
            task.timer = detached(self._loop.call_at, task.take_by, give_up, task, error)

    def limit(self, task: Task) -> None:
        """From now on, when a task has been given to a worker, bound what it may run."""
        if task.timer is not None:
            task.timer.cancel()
            task.timer = None
        if task.options.timeout is not None:
            timeout = task.options.timeout
            task.timer = detached(self._loop.call_later, timeout, self._overdue, task)

    def _overdue(self, task: Task) -> None:
        timeout, link = task.options.timeout, task.link
        if timeout is None or link is None or task.gone:
            return
        running = link.running()
        left = timeout
        if running is not None and running[0] is task:
            left -= (monotonic_ns() - running[1]) / 1e9
        if left > 0:
            task.timer = detached(self._loop.call_later, left, self._overdue, task)
        else:
            error = TimeoutError(f"the task ran longer than timeout={timeout:g} s and was killed")
            self._owner.give_up(task, error)

    def look_behind(self) -> None:
        """Look, for as long as workers hold several tasks, for one that holds the others up."""
        if not self._looking:
            self._looking = True
            detached(self._loop.call_later, EVERY, self._look)

    def _look(self) -> None:
        self._looking = False
        now = monotonic_ns()
        for link in self._owner.staff.at_work():
            if len(link.tasks) < 2:
                continue
            self.look_behind()
            running = link.running()
            if running is not None and (runs := now - running[1]) > STUCK:
                task = running[0]
                task.function.learn(runs)  # so that no more of them are put behind one another
                link.load += runs - task.cost
                task.cost = float(runs)
                link.recall()
                last = link.sequence
                detached(self._loop.call_later, SEEN, self._recalled, link, task, last)

    def _recalled(self, link: Link, task: Task, last: int) -> None:
        """Take what was recalled; the worker says itself what it skips if it has gone on."""
        if link.words[_arena.RUNNING] != task.sequence:
            return
        behind = [each for each in link.tasks if task.sequence < each <= last]
        tasks = [link.tasks.pop(each) for each in behind]
        link.load -= sum(each.cost for each in tasks)
        self._owner.requeue(tasks)
