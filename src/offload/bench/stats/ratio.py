"""Ratios of paired values, with confidence intervals: mean of ratios, and ratio of means."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from offload.bench.stats import student_t

Interval = tuple[float, float, float]  # value, lower end, upper end


def geometric_mean_ratio(
    pairs: Sequence[tuple[float, float]], alpha: float = 0.05
) -> Interval | None:
    """Return the geometric mean of y / x over the pairs (x, y), all above 0; None below two pairs.

    The interval is the t interval of the log ratios, transformed back.

    >>> ratio, low, high = geometric_mean_ratio([(10.0, 21.0), (11.0, 22.0), (9.0, 17.1)])
    >>> round(ratio, 2), round(low, 2), round(high, 2)
    (2.0, 1.76, 2.26)
    """
    if len(pairs) < 2:
        return None
    logs = [math.log(y / x) for x, y in pairs]
    low, high = student_t.mean_interval(logs, alpha)
    return math.exp(statistics.fmean(logs)), math.exp(low), math.exp(high)


def ratio_of_means(pairs: Sequence[tuple[float, float]], alpha: float = 0.05) -> Interval | None:
    """Return mean(y) / mean(x) of the pairs (x, y), with its interval.

    None below two pairs, or if the mean of x is not above 0. Source: Cochran 1977, Sampling
    Techniques, 2.11: the variance of R is that of the residuals y - R x, divided by the number of
    pairs and by the squared mean of x.
    """
    if len(pairs) < 2 or (mean := statistics.fmean(x for x, _ in pairs)) <= 0:
        return None
    ratio = statistics.fmean(y for _, y in pairs) / mean
    residual_sd = math.hypot(*(y - ratio * x for x, y in pairs)) / math.sqrt(len(pairs) - 1)
    error = residual_sd / math.sqrt(len(pairs)) / mean
    half = student_t.quantile(1 - alpha / 2, len(pairs) - 1) * error
    return ratio, ratio - half, ratio + half
