"""The mean ratio of paired values, with its confidence interval."""

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
