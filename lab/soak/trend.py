"""The slope of a time series, with an interval that also holds for correlated values."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from offload.engine import intervals

BLOCKS = 8  # more would be shorter than the time over which readings of memory are correlated
MIN_READINGS = 3  # of a block, including those at its ends


@dataclass(frozen=True)
class Trend:
    """A slope, in the unit of the values per second, with the ends of its 95 % interval."""

    slope: float
    low: float
    high: float

    def per_minute(self) -> Trend:
        """Return the same trend per minute."""
        return Trend(60 * self.slope, 60 * self.low, 60 * self.high)


def fit(times: Sequence[float], values: Sequence[float]) -> Trend | None:
    """Return the trend of `values` at ascending `times` in s; None if there are too few.

    It is the t interval of the least-squares slopes of BLOCKS blocks of equal duration. Slopes of
    different blocks are almost independent, both if values vary around a line and if they change
    by random steps that remain, as memory does. A least-squares fit of the whole series has an
    interval that is too narrow for such steps.
    Source: Ibragimov and Muller 2010, t-statistic based correlation and heterogeneity robust
    inference.
    """
    if len(times) != len(values):
        raise ValueError(f"{len(times)} times do not match {len(values)} values")
    if not times or times[-1] <= times[0]:
        return None
    slopes = []
    for first, last in _blocks(times):
        if last - first < MIN_READINGS or times[last - 1] <= times[first]:
            return None
        slopes.append(statistics.linear_regression(times[first:last], values[first:last]).slope)
    low, high = intervals.mean_interval(slopes)
    return Trend(statistics.fmean(slopes), low, high)


def _blocks(times: Sequence[float]) -> list[tuple[int, int]]:
    """Return the slices of the blocks; the last value of a block is the first one of the next.

    A change between two readings thus belongs to exactly one block.
    """
    span = times[-1] - times[0]
    ends = [0]
    for number in range(1, BLOCKS):
        until = times[0] + span * number / BLOCKS
        ends.append(next(index for index, at in enumerate(times) if at >= until))
    ends.append(len(times) - 1)
    return [(first, last + 1) for first, last in pairwise(ends)]
