"""Response times of one server at a fixed request rate, below its capacity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from offload.bench.records.record import LONG, Record, Trial
from offload.bench.trial import open_loop
from offload.loads import Arrivals
from offload.loads.engine.figures import histogram
from offload.suites import Case
from offload.upstream import Upstream

LOADS = (0.5, 0.8)  # shares of the capacity: users notice the queueing delay of higher loads
QUANTILE = 0.95
SHORTEST_S = 6.0  # minimum duration in s of a load


@dataclass(frozen=True)
class Percentile:
    """The 95th percentile of response times with its 95 % interval, and the 99th, in s.

    None is unknown. If requests timed out, percentiles of `at_least_s` or more are lower bounds.
    """

    value: float | None
    low: float | None
    high: float | None
    p99_s: float | None = None
    at_least_s: float | None = None

    def is_bound(self, value: float | None) -> bool:
        """Whether `value`, which is one of the percentiles, is a lower bound."""
        return value is not None and self.at_least_s is not None and value >= self.at_least_s


def measure(
    case: Case,
    rate: float,
    trial: Trial,
    upstream: Upstream | None,
    shares: Sequence[float] = LOADS,
) -> list[Record]:
    """Start one server and load it with random arrivals at each of `shares` of its capacity.

    `rate` is the known capacity in requests/s. It is measured again before each load, because the
    speed of the machine changes. If the server does not start or a load fails, the last record has
    the problem.
    """
    arrivals = [Arrivals(share * rate, "poisson") for share in shares]
    trial = replace(trial, kind=LONG)
    return open_loop.measure(
        case, arrivals, trial, upstream, capacity=rate or None, shortest_s=SHORTEST_S
    )


def percentile(record: Record) -> Percentile:
    """Return the percentiles of a load's response times.

    The interval is that of order statistics: the ranks n q -/+ 1.96 sqrt(n q (1 - q)), which
    assumes independent response times (Conover 1999, Practical Nonparametric Statistics).
    """
    counts = record.result.response.histogram or {}
    total = sum(counts.values())
    response = record.result.response
    value, p99_s, at_least_s = response.p95_s, response.p99_s, response.at_least_s
    if not total or value is None:
        return Percentile(value, None, None, p99_s, at_least_s)
    margin = 1.96 * math.sqrt(QUANTILE * (1 - QUANTILE) / total)
    low, high = QUANTILE - margin, QUANTILE + margin
    return Percentile(
        value,
        histogram.quantile(counts, max(low, 1 / total), at_least_s),
        histogram.quantile(counts, high, at_least_s) if high < 1 else None,
        p99_s,
        at_least_s,
    )


def memories_mib(loads: Sequence[Record]) -> tuple[float, ...]:
    """Return the memory of a server under each load for which it is known."""
    return tuple(mib for record in loads if (mib := record.resources.memory.pss_mib))


def memory_mib(loads: Sequence[Record]) -> float | None:
    """Return the last known memory of a server under some loads; None if none is known."""
    return next(reversed(memories_mib(loads)), None)
