"""Outliers: values far from the median, measured in median absolute deviations (MAD)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

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
