"""Holds: how long the GIL stays with one thread, from looks at who has it."""

from __future__ import annotations

import math
from collections.abc import Sequence


def quantile_s(
    times: Sequence[float],
    locked: Sequence[int],
    switches: Sequence[int],
    every: float,
    share: float = 0.75,
) -> float | None:
    """Give the length in s that `share` of the held time is spent in holds of, at most.

    A hold is a run of looks at `times`, `every` s apart, that found the GIL locked with as many
    switches counted: its ends lie half of `every` beyond its outer looks, in the mean. Time decides
    and not their number, for a GIL that is asked for is let go thousands of times by a thread that
    merely wakes up. None when no look found it locked.
    """
    lengths: list[float] = []
    began: float | None = None
    counted = last = 0.0
    for at, is_locked, count in zip(times, locked, switches, strict=True):
        if began is not None and not (is_locked and count == counted):
            lengths.append(last - began + every)
            began = None
        if is_locked:
            began = at if began is None else began
            counted, last = count, at
    if began is not None:
        lengths.append(last - began + every)
    return _by_time(lengths, share)


def _by_time(lengths: list[float], share: float) -> float | None:
    """Give the length up to which `share` of their sum is reached, from the shortest on."""
    enough, reached = share * math.fsum(lengths), 0.0
    for length in sorted(lengths):
        reached += length
        if reached >= enough:
            return length
    return None
