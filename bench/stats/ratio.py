"""The ratio of two means that were measured together, with its interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from bench.stats import student


def of_means(
    pairs: Sequence[tuple[float, float]], alpha: float = 0.05
) -> tuple[float, float, float] | None:
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
    half = student.quantile(1 - alpha / 2, len(pairs) - 1) * error
    return ratio, ratio - half, ratio + half
