"""The departures: what is done when a worker is killed or dies, or the zygote and all with it."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from executors._link import Link, State
from executors._nursery import Nursery
from executors._task import Task
from executors._wire import Entry

AGAIN = 0.1  # s until a worker that could not begin is begun again
LONGEST = 5.0  # s between two tries to begin a zygote
STATUS = 1.0  # s that the exit status of a worker may come after the end of its socket


log = logging.getLogger("executors")


class Dispatch(Protocol):
    """Who gives the tasks."""

    def answered(self, link: Link, entries: list[Entry], blob: memoryview) -> None: ...
    def flush(self) -> None: ...
    def died(self, tasks: list[Task], status: int | None) -> None: ...
    def requeue(self, tasks: list[Task]) -> None: ...
    def fail_all(self, why: str) -> None: ...


class Departures:
    """The half of a staff that is not needed while nobody leaves."""

    links: dict[int, Link]  # by token, the dead ones until their status is known
    open: list[Link]  # those that can be given a task
    idle: dict[Link, None]  # those of them that hold none
    killed: int
    restarts: int
    _loop: asyncio.AbstractEventLoop
    _dispatch: Dispatch
    _nursery: Nursery
    _closing: bool
    _proven: bool
    _nursery_due = False  # the zygote has ended, and the next is not begun yet
    _pause = 0.0  # s until the next zygote is begun; 0 again once a worker is ready

    def _fill(self) -> None:
        """Begin the workers that are missing."""
        raise NotImplementedError

    def _settle(self) -> None:
        """Put spare workers to work."""
        raise NotImplementedError

    def _begin_nursery(self) -> None:
        """Begin another zygote."""
        raise NotImplementedError

    def _failed(self, link: Link, why: str) -> None:
        """Take the end of a worker that could not begin."""
        raise NotImplementedError

    def fail(self, why: str) -> None:
        """Give up: no worker can be had."""
        raise NotImplementedError

    def kill(self, link: Link) -> None:
        """End a worker, and whatever it runs."""
        link.recall()
        link.state = State.RETIRING
        self._withdraw(link)
        self.killed += 1
        self._nursery.kill(link.token)
        self._fill()

    def _withdraw(self, link: Link) -> None:
        self.idle.pop(link, None)
        if link in self.open:
            self.open.remove(link)

    def lost(self, link: Link) -> None:
        """Take the tasks of a worker that has ended: those it had not begun go to others."""
        if link.state is State.DEAD:
            return
        starting = link.state is State.STARTING
        link.close()
        self._withdraw(link)
        held, link.tasks = link.tasks, {}
        link.failing = [task for task in held.values() if link.has_begun(task)]
        if starting:
            self._failed(link, "a worker ended before it was ready: see its own words above")
        else:
            self.restarts += 1
            self._settle()
        if link.token in self.links:
            self._loop.call_later(STATUS, self._known, link)
        else:
            self._known(link)
        self._dispatch.requeue([task for task in held.values() if not link.has_begun(task)])

    def _known(self, link: Link) -> None:
        self.links.pop(link.token, None)
        failing, link.failing = link.failing, []
        self._dispatch.died(failing, link.status)

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
        log.warning("%s; it is begun again", why)
        self._nursery_due = True
        for link in list(self.links.values()):
            link.read_all()  # what it answered before it ended
            self.lost(link)
        self._loop.call_later(self._pause, self._begin_again)
        self._pause = min(2 * self._pause + AGAIN, LONGEST)

    def _begin_again(self) -> None:
        if self._closing:
            return
        try:
            self._begin_nursery()
        except OSError as error:
            self._loop.call_later(LONGEST, self._begin_again)
            log.warning("no zygote can be begun: %s", error)
            return
        self._nursery_due = False
        self._fill()
