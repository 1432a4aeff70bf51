"""The figures of a case that a gate can limit, each with its interval over rounds."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.analysis.comparison import rate_of, work_by_round
from offload.engine import decisions, intervals
from offload.engine.record import Record, RoundKey, by_round, of_rate, pairs_by_round
from offload.loads.engine.figures import GROWTH, histogram_quantile, merge_histograms

Windows = Sequence[Record]
RATE, P99 = "rate", "p99"


@dataclass(frozen=True)
class Measured:
    """A figure and its interval; without a value it is unknown, and may be any number."""

    value: float | None = None
    low: float = -math.inf
    high: float = math.inf


UNKNOWN = Measured()


def measure(name: str, windows: Windows, level: float) -> Measured:
    """Return a figure of a case from its windows; each end has the one-sided error rate `level`.

    The rate is in requests/s, the 99th percentile of response times in s.
    """
    if name == P99:
        return _quantile(of_rate(windows), 0.99, level)
    return _mean([*by_round(of_rate(windows), rate_of).values()], level)


def log_ratio(baseline: Windows, windows: Windows) -> decisions.LogRatio | None:
    """Return the ratio of both rates, from the rounds in which both were measured."""
    baseline, windows = of_rate(baseline), of_rate(windows)
    pairs = pairs_by_round(baseline, windows, rate_of)
    return decisions.paired_ratio(pairs, work_by_round(baseline, windows))


def _mean(values: Sequence[float], level: float) -> Measured:
    """Return the geometric mean of values above 0, with the t interval of their logarithms."""
    if len(values) < 2:
        return Measured(values[0] if values else None)
    low, high = intervals.mean_interval([math.log(value) for value in values], 2 * level)
    return Measured(
        statistics.geometric_mean(values),
        intervals.exp_or_infinity(low),
        intervals.exp_or_infinity(high),
    )


def _quantile(windows: Windows, share: float, level: float) -> Measured:
    """Return a quantile of the response times of all requests.

    A request that timed out took its timeout or longer, so an end beyond the timeout is unknown.
    """
    rounds = _counts_by_round(windows)
    if not rounds:
        return UNKNOWN
    below, inside = intervals.quantile_buckets(rounds, share, level)
    timeouts = [record.result.response.at_least_s for record in windows]
    timeout_s = min((known for known in timeouts if known is not None), default=math.inf)
    low = 0.0 if below is None else GROWTH**below
    high = math.inf if inside is None else GROWTH**inside
    all_counts = merge_histograms(
        {str(bucket): n for bucket, n in counts.items()} for counts in rounds
    )
    value = histogram_quantile(all_counts, share)
    return Measured(value, min(low, timeout_s), high if high < timeout_s else math.inf)


def _counts_by_round(windows: Windows) -> list[Counter[int]]:
    """Return for each round the number of requests in all its windows, by bucket."""
    rounds: dict[RoundKey, Counter[int]] = {}
    for record in windows:
        if counts := record.result.response.histogram:
            trial = record.trial
            own = rounds.setdefault((trial.run, trial.block, trial.round), Counter())
            own.update({int(bucket): count for bucket, count in counts.items()})
    return [*rounds.values()]
