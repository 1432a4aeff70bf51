"""The rate of coroutines on event loops: between requests that never queue and requests in step.

docs/advice.rst, The model, has the formulas with their measurements.
"""

from __future__ import annotations

from dataclasses import dataclass

from offload.bench.advice.inputs.probe import LOOP, Probe

IN_STEP = 0.25  # the least share of the wait of requests in step, with many loops; fitted
IN_STEP_EXPONENT = 4.0  # of the busy share of several loops; a guess
VISIBLE = 0.1  # minimum share of a request that its wait in step adds; below, it is not measurable


@dataclass(frozen=True)
class EventLoops:
    """Requests of `users` on `count` event loops; times of one request are in s.

    A request occupies its loop for `own_s` and uses a core for `cpu_s` of the `cores`, and awaits
    for `awaited_s` in total.
    """

    count: int
    cores: float
    awaited_s: float
    own_s: float
    cpu_s: float

    @property
    def busy_s(self) -> float:
        """The shortest time in s between two requests of all loops and cores."""
        if self.count == 1:
            return self.own_s
        return max(self.own_s / self.count, self.cpu_s / self.cores)

    def unqueued_s(self, users: int) -> float:
        """Return the duration of a request in s if requests only queue when the loops are busy."""
        return max(self.awaited_s + self.own_s, users * self.busy_s)

    def in_step_s(self, users: int) -> float:
        """Return the duration of a request in s if all await at once, and then run sequentially."""
        return max(self.unqueued_s(users), self.awaited_s + users * self.busy_s)

    def rate(self, users: int, in_step: float) -> float:
        """Return the rate in requests/s.

        `in_step` is how much the requests of one loop run in step, from 0 to 1. If there are
        several loops, another one may read the requests that arrive while a loop is busy.
        """
        unqueued_s = self.unqueued_s(users)
        if self.count > 1:
            busy = users * self.busy_s / unqueued_s
            in_step *= max(IN_STEP, 1 / self.count) * busy**IN_STEP_EXPONENT
        return users / (unqueued_s + in_step * (self.in_step_s(users) - unqueued_s))

    def in_step_at(self, users: int, rate: float) -> float:
        """Return how much requests with a measured rate ran in step; 1 if it hardly matters."""
        unqueued_s, in_step_s = self.unqueued_s(users), self.in_step_s(users)
        added_s = in_step_s - unqueued_s
        if added_s < VISIBLE * unqueued_s:
            return 1.0
        return min(1.0, max(0.0, (users / rate - unqueued_s) / added_s))


def of_calls(probe: Probe) -> EventLoops:
    """Return one event loop that runs the calls of a probe, without the overhead of requests."""
    call = probe.call
    awaited_s = max(0.0, call.wait_s + call.busy_s - probe.on_loop_s)
    return EventLoops(1, 1.0, awaited_s, probe.on_loop_s, call.cpu_s)


def in_step_share(probe: Probe) -> float:
    """Return how much the concurrent calls on the loop of a probe ran in step; 1 without them."""
    for point in probe.of_kind(LOOP)[-1:]:
        return of_calls(probe).in_step_at(point.count, point.rate)
    return 1.0
