"""The estimate of a case's rate from the rates of its visits, with an interval and a verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.stats import sequential, student_t

TARGET = 0.02  # half-width, as a share of the rate
LOOSE = 0.05  # with `quick`, and for slow cases: they have few completions a visit
SLOW = 2.0  # requests a second


@dataclass(frozen=True)
class Estimate:
    """A rate in requests a second with its interval, which covers in 95 % of runs or more.

    That holds for visits that vary alike; where one in ten is slower by a tenth it is 85 % [S].
    `half_width` is a share of `value`: `high` is value x (1 + half_width), `low` value divided by
    it. `n` counts the visits whose rate is known. `resolved` says that the case needs no further
    visit: this is a look, and half_width is within the target.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    half_width: float | None
    resolved: bool


def target_of(rate: float | None, quick: bool = False) -> float:
    """Give the half-width to reach, as a share, for a case of `rate` requests a second."""
    return LOOSE if quick or (rate is not None and rate < SLOW) else TARGET


def estimate(
    rates: Sequence[float | None],
    schedule: sequential.Looks = sequential.NORMAL,
    target: float | None = None,
    quantum: float = 0.0,
) -> Estimate:
    """Estimate the geometric mean of `rates`, requests a second, one a visit; None is left out.

    `target` is the half-width to reach, as a share; None asks `target_of`. `quantum`, a share too,
    is what the driver's own rounding may be off; it is added, so no interval is narrower than it.
    Between two looks the interval has the level of a look, but nothing is resolved. Below two
    rates there is no interval. Raise ValueError for a rate that is not a number above 0 (a visit
    that completed nothing has no rate: give None) and for a share below 0.

    Source: t interval of the mean of log(rate) (Student 1908) at the schedule's level.
    """
    known = [rate for rate in rates if rate is not None]
    if not all(0 < rate < math.inf for rate in known):
        raise ValueError(f"rates are numbers above 0 or None, not {known}")
    if not 0 <= quantum < math.inf or (target is not None and not target >= 0):
        raise ValueError(f"shares are 0 or more, not quantum={quantum} and target={target}")
    n = len(known)
    value = statistics.geometric_mean(known) if known else None
    if value is None or n < 2:
        return Estimate(value, None, None, n, None, False)
    low, high = student_t.mean_interval([math.log(rate) for rate in known], schedule.level)
    half_width = math.expm1((high - low) / 2) + quantum
    if target is None:
        target = target_of(value, quick=schedule == sequential.QUICK)
    resolved = schedule.is_look(n) and half_width <= target
    return Estimate(
        value, value / (1 + half_width), value * (1 + half_width), n, half_width, resolved
    )
