"""Hold requests until a worker can start them: a request that is held can still be dropped.

An executor's own queue cannot do this: the standard process pool starts one call early, and a call
that was started cannot be cancelled. So the executor receives only what its workers are about to
run.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict

from offload.serving.protection.expiry import Expiry

AHEAD_S = 0.05  # s of work that each worker receives beyond its current task; a guess
WORKERS_PER_EARLY_TASK = 2  # for every two workers, at least one task starts in advance
SHORTER = 4  # times shorter than the task timeout are tasks that start in advance; a guess
SHORTEST = 1e-6  # s, for a task whose duration was measured as 0


class Dropped(Exception):
    """A request was dropped before it started, because its client has disconnected."""


class WaitedTooLong(Exception):
    """A request waited much longer than expected, or no worker is left that could start it."""


class Waiting:
    """The requests of one process, started in the order of their arrival.

    A request waits at most `longest` seconds. `service_s` is the mean duration of a task, which
    determines how many tasks start in advance; None until it is known.

    Without tasks in advance, a worker would wait for the event loop after each task. But a task
    that was started is not dropped if its client disconnects. There are fewer tasks in advance than
    workers, so after an overload a new client waits for one task at most. A task in advance waits
    in the executor, and this time is part of its `timeout`: so only tasks that are much shorter
    start in advance.
    """

    def __init__(self, workers: int, longest: float, timeout: float = math.inf) -> None:
        self.service_s: float | None = None
        self._longest_early_s = timeout / SHORTER
        self._started = 0
        self._queue: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._expiry: Expiry[asyncio.Future[None]] = Expiry(longest, _refuse)
        self._set_workers(workers)

    def enter(self) -> asyncio.Future[None] | None:
        """Start a request: return None, or a future that is done when it may start.

        A request that ends before it was started must call `withdraw`.
        """
        if not self._queue and self._may_start():
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
        self._set_workers(workers)
        self._start_next()

    def _set_workers(self, workers: int) -> None:
        self._workers = workers
        self._minimum = workers + workers // WORKERS_PER_EARLY_TASK

    def _may_start(self) -> bool:
        """Whether a worker is free, or another task may start in advance."""
        if self._started < self._workers:
            return True
        known_s = self.service_s
        if known_s is None or known_s > self._longest_early_s:
            return False
        ahead = self._workers * AHEAD_S // (known_s or SHORTEST)
        return self._started < max(self._minimum, self._workers + ahead)

    def _start_next(self) -> None:
        while self._queue and self._may_start():
            turn, _ = self._queue.popitem(last=False)
            self._expiry.remove(turn)
            if not turn.done():  # else it was dropped
                self._started += 1
                turn.set_result(None)

    def refuse_all(self) -> None:
        """Refuse every request that waits: no worker can start it."""
        while self._queue:
            turn, _ = self._queue.popitem(last=False)
            self._expiry.remove(turn)
            _refuse(turn)


def _refuse(turn: asyncio.Future[None]) -> None:
    if not turn.done():  # else it was dropped
        turn.set_exception(WaitedTooLong())
