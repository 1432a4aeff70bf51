"""GIL hold times: how long one thread keeps the GIL, from periodic samples of its state."""

from __future__ import annotations

import math
from collections.abc import Sequence


def hold_quantile_s(
    times: Sequence[float],
    locked: Sequence[int],
    switches: Sequence[int],
    every: float,
    share: float = 0.75,
) -> float | None:
    """Return the time-weighted `share` quantile of hold times in s; None if no sample was locked.

    With 0.75, three quarters of the held time are in holds of this length or shorter. A hold is a
    run of samples at `times`, `every` s apart, in which the GIL is locked and its switch count does
    not change. On average a hold starts `every` / 2 before its first sample, and ends `every` / 2
    after its last one. Holds are weighted by their length, because a plain count is dominated by
    threads that only wake up: they hold the GIL thousands of times, each time very shortly.
    """
    lengths: list[float] = []
    started: float | None = None
    switch_count = last = 0.0
    for at, is_locked, count in zip(times, locked, switches, strict=True):
        if started is not None and not (is_locked and count == switch_count):
            lengths.append(last - started + every)
            started = None
        if is_locked:
            started = at if started is None else started
            switch_count, last = count, at
    if started is not None:
        lengths.append(last - started + every)
    return _time_weighted_quantile(lengths, share)


def _time_weighted_quantile(lengths: list[float], share: float) -> float | None:
    """Return the length at which the sorted lengths add up to `share` of their sum."""
    enough, reached = share * math.fsum(lengths), 0.0
    for length in sorted(lengths):
        reached += length
        if reached >= enough:
            return length
    return None
