"""Holm's correction for multiple testing.

The family-wise error rate is the probability that at least one true hypothesis is rejected. Source:
Holm 1979, A simple sequentially rejective multiple test procedure.
"""

from __future__ import annotations

from collections.abc import Sequence


def levels(p_values: Sequence[float], alpha: float) -> list[float]:
    """Return the level at which each hypothesis is tested, in their order.

    A hypothesis is rejected if its p value is at most its level. The family-wise error rate is
    `alpha`.

    >>> levels([0.04, 0.001, 0.03], 0.06)
    [0.06, 0.02, 0.03]
    """
    found = [0.0] * len(p_values)
    left, stopped = len(p_values), False
    for index in sorted(range(len(p_values)), key=p_values.__getitem__):
        found[index] = alpha / left
        stopped = stopped or p_values[index] > found[index]
        left -= not stopped
    return found
