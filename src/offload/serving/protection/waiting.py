"""Hold requests until a worker can start them: a request that is held can still be dropped.

An executor's own queue cannot do this: the standard process pool starts one call early, and a call
that was started cannot be cancelled. So the executor receives only what its workers are about to
run.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from offload.serving.protection.expiry import Expiry

AHEAD = 0.05  # s of work that each worker receives beyond its current task; a guess
LATE = 0.02  # share of a task's duration by which the loop may be late; a guess
SHORTEST = 1e-6  # s, for a task whose duration was measured as 0
WEIGHT = 0.3  # of the latest delay in the mean: one long delay is not enough; a guess


class Dropped(Exception):
    """A request was dropped before it started, because its client has disconnected."""


class WaitedTooLong(Exception):
    """A request waited much longer than expected, or no worker is left that could start it."""


class Waiting:
    """The requests of one process, started in the order of their arrival.

    A request waits at most `longest` seconds.
    """

    def __init__(self, workers: int, longest: float) -> None:
        self._workers = workers
        self._limit: float = workers
        self._started = 0
        self._late_s = 0.0
        self._queue: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._expiry: Expiry[asyncio.Future[None]] = Expiry(longest, _refuse)

    def enter(self) -> asyncio.Future[None] | None:
        """Start a request: return None, or a future that is done when it may start.

        A request that ends before it was started must call `withdraw`.
        """
        if self._started < self._limit and not self._queue:
            self._started += 1
            return None
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue[turn] = None
        self._expiry.add(turn)
        return turn

    def withdraw(self, turn: asyncio.Future[None]) -> None:
        """Forget a request: its place in the queue would keep its client, handler and body."""
        self._queue.pop(turn, None)
        self._expiry.remove(turn)

    def leave(self) -> None:
        """End a request that was started, and start the next ones."""
        self._started -= 1
        if self._queue:
            self._start_next()

    def resize(self, workers: int) -> None:
        """Set the number of workers, and start the requests that further workers can run."""
        self._limit += workers - self._workers
        self._workers = workers
        self._start_next()

    def _start_next(self) -> None:
        while self._queue and self._started < self._limit:
            turn, _ = self._queue.popitem(last=False)
            self._expiry.remove(turn)
            if not turn.done():  # else it was dropped
                self._started += 1
                turn.set_result(None)

    def set_service(self, seconds: float, late_s: float = 0.0) -> None:
        """Set the mean duration of a task, and how late the loop noticed the end of the last task.

        Workers receive short tasks in advance. If the loop is late, each worker also receives one
        long task in advance, because otherwise it would wait for the loop after each task.
        """
        self._late_s += (late_s - self._late_s) * WEIGHT
        ahead = self._workers * AHEAD // (seconds or SHORTEST)
        if ahead < self._workers and self._late_s > LATE * seconds:
            ahead = self._workers
        self._limit = self._workers + ahead

    def refuse_all(self) -> None:
        """Refuse every request that waits: no worker can start it."""
        while self._queue:
            turn, _ = self._queue.popitem(last=False)
            self._expiry.remove(turn)
            _refuse(turn)


def _refuse(turn: asyncio.Future[None]) -> None:
    if not turn.done():  # else it was dropped
        turn.set_exception(WaitedTooLong())
