"""The faults: what becomes of tasks that are given up, recalled, or lost with their worker."""

from __future__ import annotations

import asyncio
from typing import Any

from executors import _wire
from executors._errors import BrokenWorker, ended
from executors._ledger import Ledger, raised
from executors._link import Link, State, detached
from executors._queue import Queue
from executors._staff import Staff
from executors._task import Task
from executors._watch import SEEN, Watch


class Faults:
    """The half of a dispatch that is not needed while all goes well."""

    _loop: asyncio.AbstractEventLoop
    _watch: Watch
    staff: Staff
    queue: Queue
    ledger: Ledger
    running: int  # tasks that some worker holds
    broken: str | None  # why no worker can be had, for good

    def flush(self) -> None:
        """Give workers what they may hold."""
        raise NotImplementedError

    def cancel(self, task: Task) -> None:
        """Forget a task: out of the queue, or its result when it comes; or kill, if so asked."""
        if task.link is None:
            self.queue.forget(task)
            self.ledger.drop(task)
        elif task.options.kill:
            self._stop(task)

    def cancel_queued(self) -> None:
        """Cancel what no worker has."""
        for task in list(self.queue):
            if task.future.cancel():
                self.cancel(task)

    def give_up(self, task: Task, error: BaseException) -> None:
        """Fail a task wherever it is: out of the queue, or with the worker that runs it."""
        if task.link is None:
            self.queue.forget(task)
        self.ledger.fail(task, error)
        self._stop(task)

    def _stop(self, task: Task) -> None:
        """Have a worker begin nothing more, and kill it if it has begun this task."""
        link = task.link
        if link is not None and link.tasks.get(task.sequence) is task:
            link.recall()
            detached(self._loop.call_later, SEEN, self._kill, link, task)

    def _kill(self, link: Link, task: Task) -> None:
        """Kill a worker that still runs a task; it cannot have gone on to another meanwhile."""
        running = link.running()
        if running is not None and running[0] is task and link.has_begun(task):
            del link.tasks[task.sequence]
            self.running -= 1
            self.ledger.drop(task)
            self.staff.kill(link)

    def requeue(self, tasks: list[Task]) -> None:
        """Queue again, in front, what workers have not begun."""
        self.running -= len(tasks)
        self.put_back(tasks)
        self.flush()

    def put_back(self, tasks: list[Task]) -> None:
        """Queue again, in front, those that somebody still waits for."""
        for task in tasks:
            if task.timer is not None:
                task.timer.cancel()
                task.timer = None
            if task.future.done():
                self.ledger.drop(task)
        waiting = [task for task in tasks if not task.gone]
        self.queue.put_back(waiting)
        for task in waiting:
            self._watch.wait_for_worker(task)

    def died(self, tasks: list[Task], status: int | None) -> None:
        """Fail what a worker ran when it died, or try it once more where that is harmless."""
        again: list[Task] = []
        for task in tasks:
            if task.options.idempotent and not task.retried:
                task.retried = True
                task.take_by = None  # it waits anew
                again.append(task)
            else:
                self.running -= 1
                self.staff.crashed += 1
                self.ledger.fail(task, ended("the worker ended before its result came", status))
        if again:
            self.requeue(again)

    def fail_all(self, why: str) -> None:
        """Fail every task that waits, and refuse those to come."""
        self.broken = self.broken or why
        for task in self.queue.clear():
            self.ledger.fail(task, BrokenWorker(why))

    async def drain(self, grace: float | None) -> None:
        """Wait until no task is queued or running, `grace` seconds at most."""
        await self.ledger.empty(grace)

    async def end(self) -> None:
        """Kill the workers that still hold tasks, which fail, and end all others."""
        self.fail_all("the pool is closed")
        self.staff.begin_no_more()
        for link in list(self.staff.links.values()):
            tasks = [*link.tasks.values(), *link.failing]
            link.tasks, link.failing = {}, []
            self.running -= len(tasks)
            if tasks and link.state is not State.DEAD:
                self.staff.kill(link)
            for task in tasks:
                self.ledger.fail(task, BrokenWorker("the pool was closed while the task ran"))
        await self.staff.close()

    def _unasked(
        self, link: Link, sequence: int, kind: int, payload: Any, blob: memoryview
    ) -> None:
        """Take a worker's first word, or a result that nobody waits for any more."""
        if sequence:
            link.decoder.discard(kind, payload)
        elif kind == _wire.FAILED:
            self.staff.not_ready(link, raised(payload))
        else:
            self.staff.ready(link, *link.decoder.decode(kind, payload, blob))
