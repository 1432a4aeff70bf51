"""The open loop: requests are sent on a schedule, whether or not earlier ones have a response."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator
from time import monotonic

from offload.loads import Load
from offload.loads.engine.connections.clients import Clients
from offload.loads.engine.connections.connection import Connection
from offload.loads.engine.timer import Timer


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
