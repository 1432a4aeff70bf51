"""The ratio of two means of paired values, with its confidence interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from offload.engine import intervals
from offload.engine.intervals import Interval


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
    half = intervals.t_quantile(1 - alpha / 2, len(pairs) - 1) * error
    return ratio, ratio - half, ratio + half
