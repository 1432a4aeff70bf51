"""The confidence interval of a share from autocorrelated samples, by the blocking method."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from offload.engine import intervals

MIN_BLOCKS = 8  # with fewer blocks the standard deviation is too inaccurate


def share_interval(values: Sequence[float], alpha: float = 0.05) -> tuple[float, float, float]:
    """Return the mean of `values`, each from 0 to 1, and the lower and upper end of its interval.

    The interval is Wilson's, with the effective sample size: the number of independent samples that
    would have the same standard error, but not more than the number of values. Raise ValueError
    without values. Source: Wilson 1927, Probable inference, the law of succession, and statistical
    inference.
    """
    if not values:
        raise ValueError("a share needs at least one sample")
    share, n = min(1.0, math.fsum(values) / len(values)), float(len(values))
    error = standard_error(values)
    if error > 0:
        n = max(1.0, min(n, share * (1 - share) / error**2))
    z2 = intervals.normal_quantile(1 - alpha / 2) ** 2
    middle = share + z2 / (2 * n)
    half = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n)))
    low, high = (middle - half) / (1 + z2 / n), (middle + half) / (1 + z2 / n)
    return share, max(0.0, min(low, share)), min(1.0, max(high, share))


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of a mean; 0 when the values are equal or too few.

    It is the largest estimate over blocks of 1, 2, 4 ... samples. Source: Flyvbjerg and Petersen
    1989, Error estimates on averages of correlated data.
    """
    errors, blocks = [0.0], list(values)
    while len(blocks) >= MIN_BLOCKS:
        errors.append(statistics.pstdev(blocks) / math.sqrt(len(blocks) - 1))
        blocks = [(one + other) / 2 for one, other in list(pairwise(blocks))[::2]]
    return max(errors)
