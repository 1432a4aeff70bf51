"""Ratios of what was measured together, with their intervals: of means, and means of ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from offload.bench.stats import student_t

Interval = tuple[float, float, float]  # a figure, and the two ends of its interval


def geometric(pairs: Sequence[tuple[float, float]], alpha: float = 0.05) -> Interval | None:
    """Give the geometric mean of y / x over the pairs (x, y), all above 0; None below two pairs.

    The interval is Student's of the logarithms, which turn times as good into so much better.
    """
    if len(pairs) < 2:
        return None
    logs = [math.log(y / x) for x, y in pairs]
    low, high = student_t.mean_interval(logs, alpha)
    return math.exp(statistics.fmean(logs)), math.exp(low), math.exp(high)


def of_means(pairs: Sequence[tuple[float, float]], alpha: float = 0.05) -> Interval | None:
    """Give mean(y) / mean(x) of the pairs (x, y) and the two ends of its interval.

    None below two pairs, or when the mean of x is not above 0: then there is nothing to be a
    multiple of. Source: Cochran 1977, Sampling Techniques, 2.11: the residuals y - R x have the
    ratio's variance, times the squared mean of x.
    """
    if len(pairs) < 2 or (mean := statistics.fmean(x for x, _ in pairs)) <= 0:
        return None
    ratio = statistics.fmean(y for _, y in pairs) / mean
    rest = math.hypot(*(y - ratio * x for x, y in pairs)) / math.sqrt(len(pairs) - 1)
    error = rest / math.sqrt(len(pairs)) / mean
    half = student_t.quantile(1 - alpha / 2, len(pairs) - 1) * error
    return ratio, ratio - half, ratio + half
