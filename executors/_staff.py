"""The staff: the workers of a pool, from their birth to their end, and who follows whom."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any, Protocol

from executors import _arena
from executors._link import Link, State
from executors._nursery import Nursery
from executors._plan import Plan
from executors._task import Task
from executors._wire import Entry

AGAIN = 0.1  # s until a worker that could not begin is begun again
STATUS = 1.0  # s that the exit status of a worker may come after the end of its socket
AHEAD = 8  # a successor is begun when 1/AHEAD of a worker's tasks are left, one at least


class Dispatch(Protocol):
    """Who gives the tasks."""

    def answered(self, link: Link, entries: list[Entry], blob: memoryview) -> None: ...
    def flush(self) -> None: ...
    def died(self, tasks: list[Task], status: int | None) -> None: ...
    def requeue(self, tasks: list[Task]) -> None: ...
    def fail_all(self, why: str) -> None: ...


class Staff:
    """Keep `plan.workers` of them at work; those that can take a task are in `open`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, plan: Plan, dispatch: Dispatch) -> None:
        self._loop = loop
        self._plan = plan
        self._setup = pickle.dumps((plan.initializer, plan.initargs, plan.variables), 5)
        self._dispatch = dispatch
        self._quota = float("inf") if plan.max_tasks is None else float(plan.max_tasks)
        self.near = max(1.0, self._quota // AHEAD) if plan.max_tasks else -1.0
        self._token = 0
        self._closing = False
        self._proven = False  # a worker has been ready: a later failure to start is tried again
        self.links: dict[int, Link] = {}  # by token, the dead ones until their status is known
        self.open: list[Link] = []
        self.idle: list[Link] = []
        self.cause: BaseException | None = None
        self.crashed = self.killed = self.restarts = 0
        self.started = loop.create_future()
        self._nursery = Nursery(loop, plan.preload, self)
        self._fill()

    def pids(self) -> list[int]:
        """List the workers that live, with the successors."""
        return [e.pid for e in self.links.values() if e.pid and e.state is not State.DEAD]

    def _count(self, *states: State) -> int:
        return sum(link.state in states for link in self.links.values())

    def _fill(self) -> None:
        """Begin workers until there are enough, with a successor for each that ends soon."""
        if self._closing:
            return
        near = sum(link.left <= self.near for link in self.links.values() if link in self.open)
        near += self._count(State.RETIRING)
        have = self._count(State.STARTING, State.SPARE, State.ACTIVE, State.RETIRING)
        for _ in range(self._plan.workers + near - have):
            self._token += 1
            link = Link(self._token, self._loop, self, self._quota)
            self.links[link.token] = link
            self._nursery.fork(*link.handed_over())
            link.set_up(self._setup)

    def _settle(self) -> None:
        """Put spare workers to work where there is room, and begin what is then missing."""
        room = self._plan.workers - self._count(State.ACTIVE, State.RETIRING)
        for link in list(self.links.values()):
            if room > 0 and link.state is State.SPARE:
                link.state = State.ACTIVE
                self.open.append(link)
                self.idle.append(link)
                room -= 1
        if room <= 0 and not self.started.done():
            self.started.set_result(None)
        self._fill()

    def not_ready(self, link: Link, error: BaseException) -> None:
        """Take the end of a worker that could not run its initializer."""
        self._failed(link, f"the initializer of a worker failed: {error!r}", error)

    def ready(self, link: Link, pid: int, told: Any) -> None:
        """Take a worker that has run its initializer, which returned `told`."""
        self._proven = True
        link.pid, link.told = pid, told
        link.state = State.SPARE
        self._settle()
        self._dispatch.flush()

    def _failed(self, link: Link, why: str, cause: BaseException | None = None) -> None:
        link.close()
        if self._proven:
            self._loop.call_later(AGAIN, self._fill)
        else:
            self.fail(why, cause)

    def fail(self, why: str, cause: BaseException | None = None) -> None:
        """Give up: no worker can be had."""
        self.cause = cause
        if not self.started.done():
            self.started.set_result(None)
        self._dispatch.fail_all(why)

    def spent(self, link: Link) -> None:
        """Note that a worker has been given a task: its last, or one of its last."""
        if link.left <= 0:
            link.state = State.RETIRING
            self._withdraw(link)
        self._fill()

    def at_rest(self, link: Link) -> None:
        """Note that a worker holds no task."""
        if link.state is State.ACTIVE:
            self.idle.append(link)
        elif link.state is State.RETIRING:
            link.close()
            self._settle()

    def kill(self, link: Link) -> None:
        """End a worker, and whatever it runs; it begins nothing more."""
        link.recall()
        link.state = State.RETIRING
        self._withdraw(link)
        self.killed += 1
        self._nursery.kill(link.token)
        self._fill()

    def _withdraw(self, link: Link) -> None:
        for each in (self.open, self.idle):
            if link in each:
                each.remove(link)

    # What links tell

    def answered(self, link: Link, entries: list[Entry], blob: memoryview) -> None:
        self._dispatch.answered(link, entries, blob)

    def lost(self, link: Link) -> None:
        """Take the tasks of a worker that has ended: those it had not begun go to others."""
        if link.state is State.DEAD:
            return
        starting = link.state is State.STARTING
        begun = link.words[_arena.RUNNING]
        link.close()
        self._withdraw(link)
        held, link.tasks = link.tasks, {}
        link.failing = [task for sequence, task in held.items() if sequence <= begun]
        if starting:
            self._failed(link, "a worker ended before it was ready: see its own words above")
        else:
            self.restarts += 1
            self._settle()
        if link.token in self.links:
            self._loop.call_later(STATUS, self._known, link)
        else:
            self._known(link)
        self._dispatch.requeue([task for sequence, task in held.items() if sequence > begun])

    def _known(self, link: Link) -> None:
        self.links.pop(link.token, None)
        failing, link.failing = link.failing, []
        self._dispatch.died(failing, link.status)

    # What the nursery tells

    def ended(self, token: int, status: int) -> None:
        link = self.links.pop(token, None)
        if link is None:
            return
        link.status = status
        if link.state is not State.DEAD:  # its end of file is held open by a child of its own
            link.read_all()
        self.lost(link)
        self._known(link)

    def gone(self, why: str) -> None:
        """Begin a new zygote when the old one has ended, and with it every worker."""
        if self._closing:
            return
        if not self._proven:
            self.fail(why)
            return
        self._nursery = Nursery(self._loop, self._plan.preload, self)
        for link in list(self.links.values()):
            self.lost(link)
        self._proven = False

    async def close(self) -> None:
        """End every worker and the zygote."""
        self._closing = True
        for link in list(self.links.values()):
            link.close()
        self.open.clear()
        self.idle.clear()
        self._nursery.close()
        await self._nursery.ended
