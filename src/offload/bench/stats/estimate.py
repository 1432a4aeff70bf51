"""Estimate a case's rate, with a confidence interval, from its rates in several rounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.stats import sequential, student_t

TARGET = 0.02  # half-width, as a share of the rate
WIDE_TARGET = 0.05  # with `quick`, and for slow cases: they complete few requests per round
SLOW = 2.0  # requests a second


@dataclass(frozen=True)
class Estimate:
    """A rate in requests/s with its confidence interval, whose coverage is at least 95 %.

    The coverage assumes that all rounds have the same distribution. If one round in ten is slower
    by 10 %, coverage is 85 % in the simulation of tests/lab/method/test_resampling.py.
    `half_width` is a share of `value`: `high` is value x (1 + half_width), and `low` is
    value / (1 + half_width). `n` counts the rounds with a known rate. `resolved`: the case needs
    no further round, because `n` is an analysis point and `half_width` is within the target.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    half_width: float | None
    resolved: bool


def target_half_width(rate: float | None, quick: bool = False) -> float:
    """Return the required half-width, as a share, for a case with `rate` requests/s."""
    return WIDE_TARGET if quick or (rate is not None and rate < SLOW) else TARGET


def estimate(
    rates: Sequence[float | None],
    design: sequential.SequentialDesign = sequential.NORMAL,
    target: float | None = None,
    quantum: float = 0.0,
) -> Estimate:
    """Estimate the geometric mean of `rates`, in requests/s, one per round; ignore None.

    `target` is the required half-width, a share; by default that of `target_half_width`. `quantum`
    is the rounding error of a rate, also a share, because only whole requests are counted; it is
    added to the half-width.
    Between two analysis points the interval has the same level, but `resolved` is False. Fewer
    than two rates have no interval. Raise ValueError for a rate that is not a number above 0 (pass
    None for a round that completed nothing) and for a negative share.

    Source: t interval of the mean of log(rate) (Student 1908) at the design's level for rates.
    """
    known = [rate for rate in rates if rate is not None]
    if not all(0 < rate < math.inf for rate in known):
        raise ValueError(f"rates must be numbers above 0 or None, not {known}")
    if not 0 <= quantum < math.inf or (target is not None and not target >= 0):
        raise ValueError(f"shares must be 0 or more, not quantum={quantum} and target={target}")
    n = len(known)
    value = statistics.geometric_mean(known) if known else None
    if value is None or n < 2:
        return Estimate(value, None, None, n, None, False)
    low, high = student_t.mean_interval([math.log(rate) for rate in known], design.rate_level)
    half_width = math.expm1((high - low) / 2) + quantum
    if target is None:
        target = target_half_width(value, quick=design == sequential.QUICK)
    resolved = design.is_analysis(n) and half_width <= target
    return Estimate(
        value, value / (1 + half_width), value * (1 + half_width), n, half_width, resolved
    )


MIN_VALUES = 5  # with fewer it is unclear which value is the outlier
LIMIT = 5.0  # MAD; about 3.4 standard deviations of normal values
FLOOR = 0.005  # smallest MAD, a share of the median (a guess): the limit is at least 2.5 %


def outliers(values: Sequence[float | None]) -> list[int]:
    """Return the indexes of the values that are more than 5 MAD away from the median.

    None is ignored, and fewer than 5 values have no outliers. The MAD, the median distance from the
    median, is assumed to be at least 0.5 % of the median. If most values are equal it would be 0,
    and every other value would be an outlier.

    Source: Hampel 1974, The influence curve and its role in robust estimation.

    >>> outliers([100.0, 101.0, 99.0, None, 100.0, 140.0])
    [5]
    """
    known = [value for value in values if value is not None]
    if len(known) < MIN_VALUES:
        return []
    median = statistics.median(known)
    mad = statistics.median(abs(value - median) for value in known)
    limit = LIMIT * max(mad, FLOOR * abs(median))
    return [i for i, x in enumerate(values) if x is not None and abs(x - median) > limit]
