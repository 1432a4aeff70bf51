"""Outliers: visits that are further from the others than those are from each other."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

FEWEST = 5  # below it nobody can say which of the values is the odd one
LIMIT = 5.0  # median absolute deviations, about 3.4 standard deviations of normal values
FLOOR = 0.005  # a guess: MAD of the quietest case, as a share; 5 of it are 2.5 %, a real difference


def outliers(values: Sequence[float | None]) -> list[int]:
    """Give the indexes of the values that are more than 5 MAD away from the median.

    None is left out, and fewer than 5 values have no outlier. The MAD, the median distance from
    the median, counts as 0.5 % of the median at least: where most values are equal it is 0, and
    each of the others would be an outlier. The unit is that of the values.

    Source: Hampel 1974, The influence curve and its role in robust estimation.
    """
    known = [value for value in values if value is not None]
    if len(known) < FEWEST:
        return []
    median = statistics.median(known)
    mad = statistics.median(abs(value - median) for value in known)
    limit = LIMIT * max(mad, FLOOR * abs(median))
    return [i for i, x in enumerate(values) if x is not None and abs(x - median) > limit]
