"""Refuse requests that would wait too long, and drop those whose clients have left.

Admission: expected wait = max(0, requests in flight - workers + 1) x mean service time / workers.
This is the time until a worker is free. A client whose patience ends before its response has cost a
worker's time for nothing. So under overload a server that accepts everything completes nothing in
time; one that refuses early works only on requests that are still wanted. A refused client learns
at once when to retry.

Waiting: an admitted request is held until a worker can start it, so that it can still be dropped.
An executor's own queue cannot do this: the standard process pool starts one call early, and a call
that was started cannot be cancelled. So the executor receives only what its workers are about to
run. A task that was started continues, because no worker can be interrupted safely.
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Generic, TypeVar

from offload.serving.applications import responses
from offload.serving.metrics.probe import Counts

FIRST = 8  # requests per worker that are admitted before the first service time is known; a guess
WEIGHT = 0.1  # of the latest service time in the mean; a guess
LAST_DATA_RECEIVED = 52  # the offset of tcpi_last_data_recv in Linux's struct tcp_info


class Admission:
    """The admission of one process: count `in_flight`, and call `note` for each finished task."""

    def __init__(self, workers: int, max_wait: float, counts: Counts | None = None) -> None:
        self.workers = workers
        self.max_wait = max_wait
        self._counts = counts or Counts()
        self.service_s: float | None = None  # mean time for which a task occupies a worker
        self._noted = 0

    @property
    def in_flight(self) -> int:
        """The number of admitted requests without a response."""
        return self._counts["in_flight"]

    @in_flight.setter
    def in_flight(self, number: int) -> None:
        self._counts["in_flight"] = number

    def note(self, seconds: float) -> float:
        """Add the service time of a finished task to the mean, and return the mean.

        The latest tasks count most.
        """
        self._noted += 1
        known = self.service_s or 0.0
        weight = WEIGHT if self._noted * WEIGHT > 1 else 1 / self._noted
        self.service_s = mean = known + (seconds - known) * weight
        return mean

    def retry_after(self, stuck: int = 0) -> int | None:
        """Return None to admit a request; to refuse it, the seconds after which to retry.

        `stuck` workers do not count.
        """
        workers = self.workers - stuck
        if workers <= 0:
            return whole_seconds(self.max_wait)
        if self.service_s is None:
            return None if self.in_flight < FIRST * workers else whole_seconds(self.max_wait)
        expected = max(0, self.in_flight - workers + 1) * self.service_s / workers
        return None if expected <= self.max_wait else whole_seconds(expected)


def whole_seconds(seconds: float) -> int:
    """Return a time in whole seconds, rounded up, and at least 1."""
    return max(1, math.ceil(seconds))


def waited_s(connection: socket.socket) -> float:
    """Return the seconds since data last arrived on a connection; 0 where that is unknown.

    That is how long its request has waited, also while the event loop was blocked. Only Linux
    reports it.
    """
    if not hasattr(socket, "TCP_INFO"):
        return 0.0
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, LAST_DATA_RECEIVED + 4)
    except OSError:  # it was closed
        return 0.0
    milliseconds: int = struct.unpack_from("I", info, LAST_DATA_RECEIVED)[0]
    return milliseconds / 1000


# Waiting
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
        self._expiry: Expiry[asyncio.Future[None]] = Expiry(longest, _refuse_turn)
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
            _refuse_turn(turn)


def _refuse_turn(turn: asyncio.Future[None]) -> None:
    if not turn.done():  # else it was dropped
        turn.set_exception(WaitedTooLong())


# Clients
CLOSE_WAIT = 8  # tcpi_state in Linux's struct tcp_info: the peer has closed its end


def has_closed(connection: socket.socket) -> bool:
    """Whether the peer has closed its end, also if data is unread; False where that is unknown."""
    if not hasattr(socket, "TCP_INFO"):
        return False
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == CLOSE_WAIT
    except OSError:  # it was closed
        return True


class Client:
    """The client of a request: a base class of request handlers.

    While the request waits for a worker, `turn` is the future that is done when it may start.
    `task` is the asyncio task of a request that runs on the event loop.
    """

    turn: asyncio.Future[None] | None = None
    task: asyncio.Task[Any] | None = None
    is_gone = False

    @property
    def connection(self) -> socket.socket:
        """The connection of the request."""
        raise NotImplementedError

    def respond(self, answer: responses.Answer) -> None:
        """Send a response before the handler of the request has ended."""
        raise NotImplementedError

    def note_disconnect(self) -> None:
        """Note that the connection has been closed, and drop the request if it waits."""
        self.is_gone = True
        if self.turn is not None and not self.turn.done():
            self.turn.set_exception(Dropped())

    def has_left(self) -> bool:
        """Whether the client has disconnected, also while the event loop was blocked."""
        if self.is_gone:
            return True
        with suppress(BlockingIOError):  # connected, and nothing to read
            try:
                return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except ConnectionError:
                return True
        return False


# One timer for many deadlines
T = TypeVar("T")


class Expiry(Generic[T]):
    """Call `expire` with each thing that is not removed within `seconds`.

    The things are in the order of their deadlines, because all have the same time.
    """

    def __init__(self, seconds: float, expire: Callable[[T], object]) -> None:
        self._seconds = seconds
        self._expire = expire
        self._deadlines: dict[T, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, thing: T) -> None:
        """Expire a thing, in `seconds` from now."""
        self._deadlines[thing] = monotonic() + self._seconds
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._seconds, self._expire_due, loop)

    def remove(self, thing: T) -> bool:
        """Do not expire a thing; return False if it has expired or was never added."""
        return self._deadlines.pop(thing, None) is not None

    def _expire_due(self, loop: asyncio.AbstractEventLoop) -> None:
        now, self._timer = monotonic(), None
        due = []
        for thing, deadline in self._deadlines.items():
            if deadline > now:
                self._timer = loop.call_later(deadline - now, self._expire_due, loop)
                break
            due.append(thing)
        for thing in due:
            del self._deadlines[thing]
            self._expire(thing)
