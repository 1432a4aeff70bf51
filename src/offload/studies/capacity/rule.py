"""Capacity under a latency target: the highest request rate at which a server keeps the target.

An open loop sends requests at a fixed rate to a fresh server and checks one percentile of the
response times. The search has rounds. The first doubles the rate until the target is missed, and
halves the gap. Each further round starts at the mean of the earlier rounds, and narrows the gap
between a rate that keeps the target and one that misses it until the gap is small. The result of a
round is the middle of its gap. The capacity is the mean over these rounds, with its t interval.

The next step depends only on the earlier ones, so that an interrupted search can be continued. A
load that lost one of its hosts is no step, and is repeated.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from offload.engine import intervals
from offload.engine.plan import BlockState, OpenLoop, Plan, Records, StoppingRule
from offload.engine.record import LONG, Record
from offload.loads.engine import figures

FIRST_GROWTH, FIRST_GAP = 2.0, 1.2  # of the rate in the first round; the last gap, as a ratio
GROWTH, GAP = 1.08, 1.04  # in further rounds; a guess: most need three steps
ROUNDS = 5  # further rounds: the t interval of five is 1.24 times their SD
FIRST_STEPS, STEPS = 8, 3  # expected in the first round and in a further one
STEP_S, AROUND_S = 6.0, 2.0  # expected minimum duration of a step in s, and that without its load
EXCESS = 0.025  # a rate that is higher than the capacity by this share misses the target
MOST_STEPS = 16  # in one round: then a rate is not reproducible
MOST_LOST = 2  # loads of a search that lost a host and are repeated; a guess
SLOWEST = 0.5  # requests/s: a lower rate has too few responses
# Why there is no capacity
TOO_SLOW, FAILED, TOOL = "too slow", "failed", "tool"


@dataclass(frozen=True)
class LatencyTarget:
    """A percentile of response times and its limit: with `share` 0.99 and `seconds` 0.05, p99=50ms.

    `arrivals` is the arrival process: uniform or poisson.
    """

    share: float
    seconds: float
    arrivals: str = "uniform"

    @property
    def name(self) -> str:
        """The name of the percentile: p99."""
        return f"p{self.share * 100:g}".replace(".", "")


@dataclass(frozen=True)
class Step:
    """One load: its round from 1, its rate in requests/s, and whether it kept the target.

    `response_s` is the percentile of all requests. A failed one counts as a request without a
    response, so `response_s` is infinite if too many failed. With `is_tool` the target was missed
    only because of the load tool's own delay.
    """

    round: int
    rate: float
    is_kept: bool
    response_s: float
    is_tool: bool = False


@dataclass(frozen=True)
class Capacity:
    """The result: the mean of the rounds in requests/s with its 95 % interval; None if unknown.

    `at_least` is the highest rate that kept the target. `value` is None and `problem` is set if the
    search could not end: a request alone exceeds the target (TOO_SLOW), a load or its hosts failed
    or the steps contradict each other (FAILED), or the load tool was late itself (TOOL).
    """

    target: LatencyTarget
    steps: tuple[Step, ...]
    estimates: tuple[float, ...]
    value: float | None
    low: float | None
    high: float | None
    at_least: float | None
    problem: str | None


@dataclass(frozen=True, kw_only=True)
class LatencySearch(StoppingRule):
    """Open loops search the highest rate at which the only case keeps a latency target."""

    LOADS: ClassVar[str] = "loads at fixed rates"
    latency: LatencyTarget

    @property
    def counts(self) -> tuple[int, ...]:
        return ()

    def next_step(self, plan: Plan, records: Records) -> OpenLoop | None:
        """Return the load at the next rate; None if the search is over."""
        if (found := next_step(self.latency, records)) is None:
            return None
        shortest_s = shortest_load_s(self.latency)
        return OpenLoop(*found, self.latency.arrivals, shortest_s)

    def left_s(self, plan: Plan, records: Records, retry_s: float = 0.0) -> float:
        """Return the expected time of the remaining loads in s, without those of round 1."""
        return left_s(self.latency, records)

    def expected_s(self, plan: Plan) -> tuple[float, float]:
        """Return the expected time of a whole search in s, twice."""
        return (expected_s(self.latency),) * 2

    def is_finished(self, plan: Plan, states: Sequence[BlockState], number: int) -> bool:
        return True

    def check(self, plan: Plan) -> None:
        target = self.latency
        if len(plan.cases) != 1 or plan.blocks or plan.driver is not None:
            raise ValueError("a latency target is for one case without blocks and long runs")
        if not 0 < target.share < 1 or not target.seconds > 0:
            raise ValueError(f"{target} is not a latency target")
        if target.arrivals not in ("uniform", "poisson"):
            raise ValueError(f"arrivals={target.arrivals!r} is unknown")


RULE = LatencySearch


def steps_of(target: LatencyTarget, records: Sequence[Record]) -> list[Step]:
    """Return the steps of a search from its records, without loads that failed or lost a host."""
    return [
        _step(target, record)
        for record in records
        if record.trial.kind == LONG
        and record.problem is None
        and record.case.asked_rate
        and not _lost_host(record)
    ]


def _lost_host(record: Record) -> bool:
    """Whether a host failed: the server had less than the requested rate for an unknown time."""
    return any(host.problem is not None for host in record.load.hosts)


def _step(target: LatencyTarget, record: Record) -> Step:
    result = record.result
    offered, failures = result.offered or 0, (result.failures or 0) + _unfinished(record)
    answered = offered - failures
    response_s = math.inf
    if answered > 0 and target.share * offered <= answered:
        share = target.share * offered / answered
        found = figures.histogram_quantile(result.response.histogram or {}, min(share, 1.0))
        response_s = math.inf if found is None else found
    late_s = result.response.late_p99_s or 0.0
    is_kept = response_s <= target.seconds
    is_tool = not is_kept and response_s - late_s <= target.seconds
    return Step(
        record.trial.round or 1, record.case.asked_rate or 0.0, is_kept, response_s, is_tool
    )


def _unfinished(record: Record) -> int:
    return record.result.failed.get("unfinished") or 0


def next_step(target: LatencyTarget, records: Sequence[Record]) -> tuple[int, float] | None:
    """Return the round and the rate of the next step; None if the search is over."""
    if _problem(target, records) is not None:
        return None
    steps = steps_of(target, records)
    first = [step for step in steps if step.round == 1]
    rate = _next_rate(first, 1 / target.seconds, FIRST_GROWTH, FIRST_GAP)
    if rate is not None:
        return 1, rate
    for number in range(2, ROUNDS + 2):
        own = [step for step in steps if step.round == number]
        earlier = _estimates(steps, number - 1) or [_middle(first)]
        rate = _next_rate(own, statistics.geometric_mean(earlier), GROWTH, GAP)
        if rate is not None:
            return number, rate
    return None


def _next_rate(
    steps: Sequence[Step], begin: float, growth: float, largest_gap: float
) -> float | None:
    """Return the next rate of a round; None if its gap is small enough."""
    if not steps:
        return begin
    kept, missed = _gap(steps)
    if missed is None:
        assert kept is not None
        return kept * growth
    if kept is None:
        return missed / growth
    return None if missed / kept <= largest_gap else math.sqrt(kept * missed)


def _gap(steps: Sequence[Step]) -> tuple[float | None, float | None]:
    """Return the highest rate that kept the target, and the lowest one that missed it.

    Rates above one that missed the target do not count as kept.
    """
    missed = min((step.rate for step in steps if not step.is_kept), default=None)
    kept = [s.rate for s in steps if s.is_kept and (missed is None or s.rate < missed)]
    return max(kept, default=None), missed


def _middle(steps: Sequence[Step]) -> float:
    kept, missed = _gap(steps)
    assert kept is not None
    assert missed is not None
    return math.sqrt(kept * missed)


def _estimates(steps: Sequence[Step], last: int = ROUNDS + 1) -> list[float]:
    """Return the results of the finished rounds from 2 to `last`."""
    rounds = [[s for s in steps if s.round == number] for number in range(2, last + 1)]
    return [_middle(own) for own in rounds if own and _next_rate(own, 0.0, GROWTH, GAP) is None]


def _problem(target: LatencyTarget, records: Sequence[Record]) -> str | None:
    """Return why a search ends early; None if it does not."""
    loads = [record for record in records if record.trial.kind == LONG]
    if any(record.problem is not None for record in loads):
        return FAILED
    if sum(map(_lost_host, loads)) > MOST_LOST:
        return FAILED
    steps = steps_of(target, loads)
    if any(step.is_tool for step in steps):
        return TOOL
    alone = [s for record in loads if (s := record.baseline.alone_s) is not None]
    if steps and not any(step.is_kept for step in steps):
        if statistics.median(alone or [0.0]) > target.seconds:
            return TOO_SLOW
        if min(step.rate for step in steps) / FIRST_GROWTH < SLOWEST:
            return TOO_SLOW
    counts = [sum(step.round == number for step in steps) for number in range(1, ROUNDS + 2)]
    return FAILED if max(counts) >= MOST_STEPS else None


def shortest_load_s(target: LatencyTarget) -> float:
    """Return the duration in s that a load needs to show that its rate is too high.

    At a rate that is EXCESS above the capacity, the response times grow by EXCESS seconds per
    second. After this duration the percentile has reached its limit.
    """
    return target.seconds / (EXCESS * target.share)


def expected_s(target: LatencyTarget) -> float:
    """Return the expected time of a whole search in s."""
    return _step_s(target) * (FIRST_STEPS + STEPS * ROUNDS)


def left_s(target: LatencyTarget, records: Sequence[Record]) -> float:
    """Return the expected time of the remaining steps in s, without those of the first round."""
    done = len(_estimates(steps_of(target, records)))
    return _step_s(target) * STEPS * (ROUNDS - done)


def _step_s(target: LatencyTarget) -> float:
    return max(STEP_S, shortest_load_s(target) + AROUND_S)


def evaluate(target: LatencyTarget, records: Sequence[Record]) -> Capacity:
    """Return the capacity from the records of a search, which may be unfinished.

    Source: t interval of the mean of the logarithms (Student 1908). Half of the gap is added on
    both sides, because the capacity may lie anywhere in it.
    """
    steps, problem = steps_of(target, records), _problem(target, records)
    estimates = _estimates(steps)
    at_least = max((step.rate for step in steps if step.is_kept), default=None)
    value = low = high = None
    if problem is None and estimates:
        value = statistics.geometric_mean(estimates)
    if value is not None and len(estimates) > 1:
        logs = [math.log(estimate) for estimate in estimates]
        ends = intervals.mean_interval(logs)
        margin = math.log(GAP) / 2
        low, high = math.exp(ends[0] - margin), math.exp(ends[1] + margin)
    return Capacity(target, tuple(steps), tuple(estimates), value, low, high, at_least, problem)
