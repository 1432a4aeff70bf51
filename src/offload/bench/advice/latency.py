"""Response times of one server at a fixed request rate, below its capacity.

The speed of a shared machine changes within seconds. At 80 % of the capacity, response times can
double if the capacity decreases by a tenth. So each load is short, the loads alternate, the
capacity is measured before each of them, and the result is the median of the loads at one share.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from offload.bench.analysis.rate import failed_share
from offload.bench.records.record import LONG, Record, Trial
from offload.bench.trial import open_loop
from offload.loads import Arrivals
from offload.loads.engine.figures import histogram
from offload.suites import Case
from offload.upstream import Upstream

LOADS = (0.5, 0.8)  # shares of the capacity: users notice the queueing delay of higher loads
QUANTILE = 0.95
MOST_FAILED = 0.01  # share of failed requests, above which a 99th percentile is not within a limit
MIN_PASSES, MAX_PASSES = 3, 4  # number of loads at each share
MIN_LOAD_S, MAX_LOAD_S = 1.3, 2.5  # duration of a load in s
RESPONSES = 40  # number of responses in a load at the full capacity, within MAX_LOAD_S
CAPACITY_S = 0.5  # duration in s of a measurement of the capacity
FIXED_LOAD_S = 0.7  # s of a load besides its duration and CAPACITY_S; measured
TOTAL_S = 20.0  # duration in s of all loads, if the minimum number of passes permits it


@dataclass(frozen=True)
class Percentile:
    """The 95th percentile of response times with its interval, and the 99th, in s.

    None is unknown. `percentiles` describes the interval. If requests timed out, percentiles of
    `at_least_s` or more are lower bounds. `responses` is the number of responses, and `failed` the
    share of requests that failed.
    """

    value: float | None
    low: float | None
    high: float | None
    p99_s: float | None = None
    at_least_s: float | None = None
    responses: int = 0
    failed: float = 0.0

    def is_bound(self, value: float | None) -> bool:
        """Whether `value`, which is one of the percentiles, is a lower bound."""
        return value is not None and self.at_least_s is not None and value >= self.at_least_s

    def is_within(self, p99_s: float) -> bool:
        """Whether the 99th percentile is within a limit; a failed request has no response."""
        if self.p99_s is None or self.is_bound(self.p99_s):
            return False
        return self.p99_s <= p99_s and self.failed <= MOST_FAILED


def measure(
    case: Case,
    rate: float,
    trial: Trial,
    upstream: Upstream | None,
    shares: Sequence[float] = LOADS,
    most: int = MAX_PASSES,
    until: float = math.inf,
) -> Generator[Record]:
    """Start one server and load it with random arrivals at each of `shares` of its capacity.

    `rate` is the known capacity in requests/s, above 0. It is measured again before each load. A
    record is yielded after each load, in the order of `shares`, repeated for each pass, at most
    `most` times. After the first pass, none is started that would end after `until`, a time of
    `time.monotonic`. If the server does not start or a load fails, the last record has the problem.
    """
    duration_s = min(max(RESPONSES / rate, MIN_LOAD_S), MAX_LOAD_S)
    passes = int(TOTAL_S / len(shares) / (duration_s + CAPACITY_S + FIXED_LOAD_S))
    passes = min(max(passes, MIN_PASSES), most)
    arrivals = [Arrivals(share * rate, "poisson") for share in shares] * passes
    trial = replace(trial, kind=LONG)
    capacity = open_loop.Capacity(rate, CAPACITY_S)
    loads = open_loop.measure(
        case, arrivals, trial, upstream, capacity=capacity, duration_s=duration_s
    )
    with closing(loads):
        began = time.monotonic()
        for number, record in enumerate(loads, 1):
            yield record
            done, rest = divmod(number, len(shares))
            now = time.monotonic()
            if rest == 0 and now + (now - began) / done > until:
                return


def percentiles(records: Sequence[Record], shares: Sequence[float] = LOADS) -> list[Percentile]:
    """Return the percentiles of the response times at each of `shares`, from all loads there.

    The 95th percentile is the median of the loads. Its interval is from the smallest to the largest
    of them; it contains the true median with a probability of 1 - 2^(1 - n), 88 % for 4 loads
    (Conover 1999, Practical Nonparametric Statistics). The interval of a single load is that of its
    order statistics. The 99th percentile is that of all responses. Loads with a problem do not
    count: their percentiles are those of the responses until their server died.
    """
    groups = [records[place :: len(shares)] for place in range(len(shares))]
    return [_percentile(group) for group in groups if group]


def _percentile(all_loads: Sequence[Record]) -> Percentile:
    loads = [each for each in all_loads if each.problem is None]
    bounds = [each.result.response.at_least_s for each in loads]
    at_least_s = min((bound for bound in bounds if bound is not None), default=None)
    values = [each.result.response.p95_s for each in loads]
    known = [value for value in values if value is not None]
    if not known:
        return Percentile(None, None, None, at_least_s=at_least_s, failed=failed_share(loads))
    counts = _all_responses(loads)
    p99_s = loads[0].result.response.p99_s
    if len(loads) > 1:
        p99_s = histogram.quantile(counts, 0.99, at_least_s) if counts else None
    low: float | None = min(known)
    high: float | None = max(known)
    if len(known) == 1:
        low, high = _interval(counts, at_least_s)
    return Percentile(
        statistics.median(known),
        low,
        high,
        p99_s,
        at_least_s,
        sum(counts.values()),
        failed_share(loads),
    )


def _interval(
    counts: Mapping[str, int], at_least_s: float | None
) -> tuple[float | None, float | None]:
    """Return the 95 % interval of the 95th percentile by order statistics.

    The ranks are n q -/+ 1.96 sqrt(n q (1 - q)); this assumes independent response times.
    """
    total = sum(counts.values())
    if not total:
        return None, None
    margin = 1.96 * math.sqrt(QUANTILE * (1 - QUANTILE) / total)
    low, high = QUANTILE - margin, QUANTILE + margin
    return (
        histogram.quantile(counts, max(low, 1 / total), at_least_s),
        histogram.quantile(counts, high, at_least_s) if high < 1 else None,
    )


def _all_responses(loads: Sequence[Record]) -> dict[str, int]:
    """Return the histogram of the responses of all loads."""
    found: Counter[str] = Counter()
    for record in loads:
        found.update(record.result.response.histogram or {})
    return dict(found)


def memories_mib(loads: Sequence[Record]) -> tuple[float, ...]:
    """Return the memory of a server in each load in which it is known."""
    return tuple(mib for each in loads if (mib := each.resources.memory.pss_mib))
