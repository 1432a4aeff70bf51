"""The rate of coroutines on event loops: between requests that never queue and requests in step.

lab/advice.rst, The model, has the formulas with their measurements.
"""

from __future__ import annotations

from dataclasses import dataclass

from offload.bench.advice.inputs.probe import Probe
from offload.bench.advice.prediction.shared_cores import IN_STEP_EXPONENT

LEAST_IN_STEP = 0.25  # share of the wait in step with four loops or more; fitted
# Share of a duration that the wait in step adds, at which its measured and its assumed share have
# the same weight; a guess
UNCERTAIN = 0.1


@dataclass(frozen=True)
class EventLoops:
    """Event loops that serve requests; times are those of one request, in s.

    A request occupies its loop for `on_loop_s`, awaits for `awaited_s`, and needs `cpu_s` of CPU
    time on one of `cores`.
    """

    count: int
    cores: float
    awaited_s: float
    on_loop_s: float
    cpu_s: float

    @property
    def bottleneck_s(self) -> float:
        """The mean time in s that a request needs of the busiest resource: the loops or cores."""
        cpu_s = self.cpu_s if self.count > 1 else min(self.cpu_s, self.on_loop_s)
        return max(self.on_loop_s / self.count, cpu_s / self.cores)

    def unqueued_s(self, users: int) -> float:
        """Return the duration of a request in s if it only queues while the bottleneck is busy."""
        return max(self.awaited_s + self.on_loop_s, users * self.bottleneck_s)

    def in_step_s(self, users: int) -> float:
        """Return the duration of a request in s if all await at once, and then queue."""
        return max(self.unqueued_s(users), self.awaited_s + users * self.bottleneck_s)

    def rate(self, users: int, in_step: float) -> float:
        """Return the rate in requests/s.

        `in_step` is how much the requests of one loop run in step, from 0 to 1. If there are
        several loops, another one may read the requests that arrive while a loop is busy, so they
        run less in step.
        """
        unqueued_s = self.unqueued_s(users)
        if self.count > 1:
            busy = users * self.bottleneck_s / unqueued_s
            in_step *= max(LEAST_IN_STEP, 1 / self.count) * busy**IN_STEP_EXPONENT
        return users / (unqueued_s + in_step * (self.in_step_s(users) - unqueued_s))

    def in_step_at(self, users: int, rate: float) -> float:
        """Return how much the requests ran in step at a measured rate, from 0 to 1.

        Without a measurement it is assumed to be 1. The measured share is less certain the less the
        wait in step adds to the duration of a request, so it has a weight.
        """
        unqueued_s = self.unqueued_s(users)
        added_s = self.in_step_s(users) - unqueued_s
        if added_s <= 0:
            return 1.0
        found = min(1.0, max(0.0, (users / rate - unqueued_s) / added_s))
        weight = 1 / (1 + (UNCERTAIN * unqueued_s / added_s) ** 2)
        return 1 - weight * (1 - found)


def loop_of_probe(probe: Probe) -> EventLoops:
    """Return the event loop of a probe: its calls have no overhead of requests."""
    return EventLoops(1, probe.capacity, probe.awaited_s, probe.on_loop_s, probe.call.cpu_s)


def in_step_share(probe: Probe) -> float:
    """Return how much the concurrent calls on the loop of a probe ran in step; 1 without them."""
    point = probe.loop_point
    return 1.0 if point is None else loop_of_probe(probe).in_step_at(point.count, point.rate)
