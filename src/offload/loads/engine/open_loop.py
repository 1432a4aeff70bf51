"""The open loop: requests that arrive at their times, whether or not earlier ones are answered."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator
from time import monotonic

from offload.loads import Load
from offload.loads.engine.clients import Clients
from offload.loads.engine.connection import Connection
from offload.loads.engine.timer import Timer


def arrivals(whole: Load, seed: int, process: int, start: float) -> Iterator[float]:
    """Give the times at which one of a load's processes is to ask, without end.

    Those of all processes together come at `rate`: evenly, as every n-th process takes its turn,
    or by a Poisson process, which the sum of n independent ones of rate / n is.
    """
    assert whole.rate is not None
    if whole.arrivals == "uniform":
        number = process
        while True:
            yield start + number / whole.rate
            number += whole.processes
    chance = random.Random(seed)  # noqa: S311 - arrivals that can be repeated
    while True:
        start += chance.expovariate(whole.rate / whole.processes)
        yield start


class Open(Clients):
    """Arrivals that take an idle connection, a new one up to `users`, or else wait for one.

    A request began when it was to begin: its waiting, and a late scheduler, are in its time.
    """

    def __init__(self, load: Load, whole: Load, process: int) -> None:
        super().__init__(load)
        self._whole, self._process = whole, process
        self._idle: list[Connection] = []
        self._waiting: deque[float] = deque()
        self._due = math.inf

    def begin(self) -> None:
        self._arrivals = arrivals(self._whole, self.load.seed, self._process, monotonic())
        self._due = next(self._arrivals)
        self._timer = Timer(self.loop, self._arrive)
        self._timer.at(self._due)

    def _arrive(self) -> None:
        """Ask all that is due; how late that is stays visible."""
        now, samples = monotonic(), self.samples
        while self._due <= now and not self.stopped:
            samples.asked.append(self._due)
            samples.late.append(now - self._due)
            self._ask(self._due)
            self._due = next(self._arrivals)
        if not self.stopped:
            self._timer.at(self._due)

    def _ask(self, began: float) -> None:
        if self._idle:
            self._idle.pop().ask(began)
        elif len(self.connections) < self.load.users:
            self.connections.append(Connection(self))
            self.connections[-1].ask(began)
        else:
            self._waiting.append(began)

    def next(self, connection: Connection, now: float) -> None:
        if self._waiting and not self.stopped:
            connection.ask(self._waiting.popleft())
        else:
            self._idle.append(connection)

    def stop(self, problem: str | None = None) -> None:
        if not self.stopped:
            self._timer.close()
            super().stop(problem)
            self.samples.unfinished.extend(self._waiting)

    def is_warm(self) -> bool:
        return len(self.samples.ended) > 0

    def is_settled(self, at: float) -> bool:
        waits = self._waiting and self._waiting[0] <= at
        return self._due > at and not waits and super().is_settled(at)

    def sweep(self, now: float) -> None:
        super().sweep(now)
        while self._waiting and self._waiting[0] < now - self.load.timeout:
            # not by fail(): many at once say only that the server is slower than they arrive
            self.samples.failed.append(("timeout", self._waiting.popleft(), now))
