"""The staff: the workers of a pool, from their birth to their end, and who follows whom."""

from __future__ import annotations

import asyncio
import pickle
from multiprocessing import context, reduction, resource_sharer
from typing import Any

from executors._departures import AGAIN, Departures, Dispatch, log
from executors._link import Link, State
from executors._nursery import ENDING, Nursery
from executors._plan import Plan
from executors._wire import Entry

AHEAD = 8  # a successor is begun when 1/AHEAD of a worker's tasks are left, one at least


class Staff(Departures):
    """Keep `plan.workers` of them at work; those that can take a task are in `open`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, plan: Plan, dispatch: Dispatch) -> None:
        self._loop = loop
        self._plan = plan
        self._begins_with = (
            plan.initializer, plan.initargs, plan.variables, plan.has_core_to_spare
        )  # fmt: skip
        self._setup = _pickled_once(self._begins_with)
        # Raise what does not pickle here, before the fork server is started.
        self._first = None if self._setup else _pickled(self._begins_with)
        self._dispatch = dispatch
        self._quota = float("inf") if plan.max_tasks is None else float(plan.max_tasks)
        self.near = max(1.0, self._quota // AHEAD) if plan.max_tasks else -1.0
        self.is_counting = plan.max_tasks is not None  # the tasks of each worker, to replace it
        self._token = 0
        self._closing = False
        self._waiting = False
        self._proven = False  # a worker has been ready: a later failure to start is tried again
        self.links: dict[int, Link] = {}  # by token, the dead ones until their status is known
        self.open: list[Link] = []
        self.idle: dict[Link, None] = {}  # workers of `open` that hold no task, newest last
        self.cause: BaseException | None = None
        self.crashed = self.killed = self.restarts = 0
        self.started = loop.create_future()
        self._begin_nursery()
        self._fill()

    def _begin_nursery(self) -> None:
        self._nursery = Nursery(self._loop, self._plan.preload, self)

    def pids(self) -> list[int]:
        """List the workers that live, with the successors."""
        return [e.pid for e in self.links.values() if e.pid and e.state is not State.DEAD]

    def at_work(self) -> list[Link]:
        """List the workers that may hold tasks: those that take more, and those that end soon."""
        states = (State.ACTIVE, State.RETIRING)
        return [link for link in self.links.values() if link.state in states]

    def _count(self, *states: State) -> int:
        return sum(link.state in states for link in self.links.values())

    def _fill(self) -> None:
        """Begin workers until there are enough, with a successor for each that ends soon."""
        if self._closing or self._nursery_due:
            return
        near = sum(link.left <= self.near for link in self.links.values() if link in self.open)
        near += self._count(State.RETIRING)
        have = self._count(State.STARTING, State.SPARE, State.ACTIVE, State.RETIRING)
        for _ in range(self._plan.workers + near - have):
            self._token += 1
            try:
                link = Link(self._token, self._loop, self, self._quota)
            except OSError as error:  # no descriptor, no memory
                self._put_off(f"no worker can be begun: {error}", error)
                return
            self.links[link.token] = link
            self._nursery.fork(*link.handed_over())
            link.set_up(self._setup or self._first or _pickled(self._begins_with))
            self._first = None

    def _settle(self) -> None:
        """Put spare workers to work where there is room, and begin what is then missing."""
        room = self._plan.workers - self._count(State.ACTIVE, State.RETIRING)
        for link in list(self.links.values()):
            if room > 0 and link.state is State.SPARE:
                link.state = State.ACTIVE
                self.open.append(link)
                self.idle[link] = None
                room -= 1
        if room <= 0 and not self.started.done():
            self.started.set_result(None)
        self._fill()

    def not_ready(self, link: Link, error: BaseException) -> None:
        """Take the end of a worker that could not run its initializer."""
        self._failed(link, f"the initializer of a worker failed: {error!r}", error)

    def ready(self, link: Link, pid: int, told: Any) -> None:
        """Take a worker that has run its initializer, which returned `told`."""
        self._proven, self._pause = True, 0.0
        link.pid, link.told = pid, told
        link.state = State.SPARE
        self._settle()
        self._dispatch.flush()

    def _failed(self, link: Link, why: str, cause: BaseException | None = None) -> None:
        link.close()
        self._put_off(why, cause)

    def _put_off(self, why: str, cause: BaseException | None) -> None:
        """Try again to begin workers in a moment, or give up when none ever began."""
        if not self._proven:
            self.fail(why, cause)
        elif not self._waiting:
            log.warning("%s; it is tried again", why)
            self._waiting = True
            self._loop.call_later(AGAIN, self._try_again)

    def _try_again(self) -> None:
        self._waiting = False
        self._fill()

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
        """Note that a worker has answered; it is idle, or ends, once it holds no task."""
        if link.tasks:
            return
        if link.state is State.ACTIVE:
            self.idle[link] = None
        elif link.state is State.RETIRING:
            link.close()
            self._settle()

    def answered(self, link: Link, entries: list[Entry], blob: memoryview) -> None:
        self._dispatch.answered(link, entries, blob)

    def begin_no_more(self) -> None:
        """Replace no worker that ends from now on."""
        self._closing = True

    async def close(self) -> None:
        """End every worker and the zygote; who waits for the start waits no longer."""
        self._closing = True
        if not self.started.done():
            self.started.set_result(None)
        for link in list(self.links.values()):
            if link.state is State.STARTING:  # in an initializer, which may take long
                self._nursery.kill(link.token)
            link.close()
        self.open.clear()
        self.idle.clear()
        self._nursery.close()
        if not self._nursery_due:
            await asyncio.wait([self._nursery.ended], timeout=ENDING)
            self._nursery.end_at_once()


def _pickled_once(setup: object) -> bytes | None:
    """Pickle what all workers begin with; None for what each must be given by itself."""
    try:
        return pickle.dumps(setup, 5)
    except RuntimeError:  # a queue or a lock of multiprocessing's
        return None


def _pickled(setup: object) -> bytes:
    """Pickle what a worker begins with, as multiprocessing pickles for a child of its own."""
    before = context.get_spawning_popen()
    context.set_spawning_popen(_Child())  # type: ignore[arg-type] # of which it asks this much
    try:
        return bytes(reduction.ForkingPickler.dumps(setup))
    finally:
        context.set_spawning_popen(before)


class _Child:
    """A child to be, which fetches descriptors when it has begun."""

    def duplicate_for_child(self, descriptor: int) -> int:
        return descriptor

    DupFd = staticmethod(resource_sharer.DupFd)
