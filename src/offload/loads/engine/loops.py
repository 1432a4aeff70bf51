"""When requests are sent: after a response (closed loop), or on a schedule (open loop)."""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import random
import struct
import sys
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic

from offload.loads._load import Load
from offload.loads.engine.connections import Clients, Connection


class ClosedLoop(Clients):
    """The users of one load process; they stop after a time or a number of requests."""

    def __init__(self, load: Load) -> None:
        super().__init__(load)
        self._remaining: float = math.inf if load.requests is None else load.requests
        self._is_over = False
        self._is_endless = load.requests is None and load.each is None and not load.think
        self._random = random.Random(load.seed)  # noqa: S311 - repeatable jitter

    def start(self, now: float) -> None:
        self._started_at = now
        self.connections.extend(self.new_connection() for _ in range(self.load.users))
        self._active = len(self.connections)
        for user in self.connections:
            self.next(user, monotonic())

    def next(self, connection: Connection, now: float) -> None:
        if self._is_endless and not self.stopped:  # the hot path
            connection.send(now)
            return
        if self.stopped:
            return
        is_done = self._is_over or self._remaining <= 0
        if is_done or (self.load.each is not None and self._has_enough(connection, now)):
            self._stop_user()
            return
        self._remaining -= 1
        if self.load.think and connection.responses:
            pause = self.load.think * self._random.uniform(0.5, 1.5)
            self.loop.call_later(pause, self._send, connection)
        else:
            connection.send(now)

    def stop_sending(self) -> None:
        self._is_over, self._is_endless = True, False

    def _send(self, user: Connection) -> None:
        """Send after the think time, unless sending has stopped."""
        if self._is_over:
            self._stop_user()
        elif not self.stopped:
            user.send(monotonic())

    def _has_enough(self, user: Connection, now: float) -> bool:
        each, seconds = self.load.each or 0, self.load.seconds or 0.0
        return user.responses >= each and now - self._started_at >= seconds

    def _stop_user(self) -> None:
        """Stop one user; the load ends when none is left."""
        self._active -= 1
        if self._active == 0:
            self.stop()


# The open loop


class OpenLoop(Clients):
    """An open loop, whose requests use an idle connection, open a new one, or wait for one.

    There are at most `users` connections. A request starts at its scheduled time, so the delay of
    the tool and the wait for a connection are part of its response time.
    """

    def __init__(self, load: Load, whole: Load, process: int) -> None:
        super().__init__(load)
        self._whole, self._process = whole, process
        self._idle: list[Connection] = []
        self._waiting: deque[int] = deque()  # the numbers of requests that wait for a connection
        self._due = math.inf

    def start(self, now: float) -> None:
        self._arrivals = arrivals(self._whole, self.load.seed, self._process, now)
        self._due = next(self._arrivals)
        self._timer = Timer(self.loop, self._arrive)
        self._timer.at(self._due)

    def _arrive(self) -> None:
        """Send all requests that are due, and record their delay."""
        now, samples = monotonic(), self.samples
        while self._due <= now and not self.stopped:
            samples.due.append(self._due)
            samples.late.append(now - self._due)
            samples.waited.append(0.0)
            self._send(self._due, now)
            self._due = next(self._arrivals)
        if not self.stopped and self._due < math.inf:
            self._timer.at(self._due)

    def _send(self, started: float, now: float) -> None:
        if self._idle:
            self._idle.pop().send(started, now)
        elif len(self.connections) < self.load.users:
            self.connections.append(self.new_connection())
            self.connections[-1].send(started)
        else:
            self._waiting.append(len(self.samples.due) - 1)

    def next(self, connection: Connection, now: float) -> None:
        if self._waiting and not self.stopped:
            connection.send(self._next_waiting(now), now)
        else:
            self._idle.append(connection)

    def stop_sending(self) -> None:
        self._due = math.inf
        self._timer.close()

    def stop(self, problem: str | None = None) -> None:
        if not self.stopped:
            self._timer.close()
            super().stop(problem)
            self.samples.requests = len(self.samples.due)
            while self._waiting:
                self.samples.unfinished.append(self._next_waiting(self.samples.over))

    def is_warm(self) -> bool:
        return len(self.samples.ended) > 0

    def is_settled(self, at: float) -> bool:
        waits = self._waiting and self.samples.due[self._waiting[0]] <= at
        # A request counts by its scheduled time: it may be sent much later.
        is_open = any(c.started is not None and c.started <= at for c in self.connections)
        return self._due > at and not waits and not is_open

    def sweep(self, now: float) -> None:
        super().sweep(now)
        due, late = self.samples.due, now - self.load.timeout
        while self._waiting and due[self._waiting[0]] < late:
            # Do not call fail(): many timeouts only mean that the server is slower than the rate.
            self.samples.failed.append(("timeout", self._next_waiting(now), now))

    def _next_waiting(self, now: float) -> float:
        """End the wait of the first waiting request, record it, and return its scheduled start."""
        number = self._waiting.popleft()
        samples = self.samples
        due = samples.due[number]
        samples.waited[number] = now - due - samples.late[number]
        return due


def arrivals(whole: Load, seed: int, process: int, start: float) -> Iterator[float]:
    """Yield the scheduled start times of one of a load's n processes, without end.

    All processes together send at `rate`. With uniform arrivals each process sends every n-th
    request. With poisson arrivals each process has its own Poisson process of `rate` / n.
    """
    assert whole.arrivals is not None
    rate = whole.arrivals.rate
    if whole.arrivals.process == "uniform":
        number = process
        while True:
            yield start + number / rate
            number += whole.processes
    generator = random.Random(seed)  # noqa: S311 - repeatable arrivals
    while True:
        start += generator.expovariate(rate / whole.processes)
        yield start


CLOCK_MONOTONIC, ABSOLUTE = 1, 1
FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


class Timer:
    """Call `fire` at a time of CLOCK_MONOTONIC, with Linux's timerfd or else the loop's timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fire: Callable[[], None]) -> None:
        self._loop, self._fire = loop, fire
        self._handle: asyncio.TimerHandle | None = None
        self._fd = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None)
            self._fd = self._libc.timerfd_create(CLOCK_MONOTONIC, FLAGS)
        if self._fd >= 0:
            loop.add_reader(self._fd, self._read)

    def at(self, when: float) -> None:
        """Fire once at `when`, or immediately if that is past."""
        if self._fd < 0:
            self._handle = self._loop.call_later(max(0.0, when - monotonic()), self._fire)
            return
        seconds, nanoseconds = divmod(max(1, int(when * 1e9)), 1_000_000_000)
        setting = struct.pack("qqqq", 0, 0, seconds, nanoseconds)  # itimerspec: interval, value
        self._libc.timerfd_settime(self._fd, ABSOLUTE, setting, None)

    def close(self) -> None:
        """Cancel the timer."""
        if self._handle is not None:
            self._handle.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # the timer was set again in the meantime
            return
        self._fire()
