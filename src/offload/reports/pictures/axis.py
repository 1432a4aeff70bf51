"""Axes of pictures, logarithmic or linear: their ends, ticks and labels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offload.reports.pictures.drawing import LETTER

STEPS = (1, 2, 5)  # a tick is one of these times a power of ten
SMALLEST = 1e-9  # smallest span, as a share of its ends; a smaller one counts as 0
GAP = 4  # px between two labels
MOST = 6  # ticks of an axis, so that labels do not overlap in a narrow picture


@dataclass(frozen=True)
class Axis:
    """The ends of an axis, its ticks in ascending order, and the label of each."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    is_log: bool

    def place(self, value: float, first: float, last: float) -> float:
        """Return the place of a value between `first` and `last`, the ends of the axis in px.

        Values beyond the ends are at the ends.
        """
        known = min(max(value, self.low), self.high)
        if self.is_log:
            share = math.log(known / self.low) / math.log(self.high / self.low)
        else:
            share = (known - self.low) / (self.high - self.low)
        return first + share * (last - first)

    def labelled(self, first: float, last: float) -> list[tuple[float, str]]:
        """Return the places and the labels of the ticks: every second one if they would overlap."""
        found = [
            (self.place(tick, first, last), label)
            for tick, label in zip(self.ticks, self.labels, strict=True)
        ]
        needed = (
            LETTER * (len(one[1]) + len(other[1])) / 2 + GAP
            for one, other in itertools.pairwise(found)
        )
        apart = (abs(other[0] - one[0]) for one, other in itertools.pairwise(found))
        is_crowded = any(space < width for space, width in zip(apart, needed, strict=True))
        return found[::2] if is_crowded else found


def plain(value: float) -> str:
    """Return the label of a number without a unit."""
    return f"{value:g}"


def logarithmic(
    values: Sequence[float], label: Callable[[float], str], includes: Sequence[float] = ()
) -> Axis:
    """Return an axis whose ends are ticks below and above all positive values."""
    known = [value for value in (*values, *includes) if 0 < value < math.inf] or [1.0]
    low, high = _below(min(known)), _above(max(known))
    if low == high:
        low, high = _below(low * 0.99), _above(high * 1.01)
    ticks = _series(low, high)
    if len(ticks) > MOST:
        ticks = [tick for tick in ticks if math.log10(tick).is_integer()]
    every = math.ceil(len(ticks) / MOST)
    kept = tuple(ticks[::every])
    return Axis(low, high, kept, tuple(map(label, kept)), is_log=True)


def linear(
    values: Sequence[float], label: Callable[[float], str], low: float = 0.0, high: float = 0.0
) -> Axis:
    """Return an axis from `low` or less to `high` or more, both of which are ticks."""
    ends = min([low, *values]), max([high, *values])
    span = ends[1] - ends[0]
    if span <= SMALLEST * max(abs(ends[0]), abs(ends[1]), SMALLEST):
        span, ends = 1.0, (ends[0], ends[0] + 1.0)
    power = math.floor(math.log10(span / MOST))
    sizes = [step * 10.0**exponent for exponent in (power, power + 1) for step in STEPS]
    step = next(size for size in sizes if span / size <= MOST - 1)
    first, last = math.floor(ends[0] / step + 1e-9), math.ceil(ends[1] / step - 1e-9)
    ticks = tuple(float(f"{number * step:.12g}") for number in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks, tuple(map(label, ticks)), is_log=False)


def _series(low: float, high: float) -> list[float]:
    """Return the ticks from `low` to `high`."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    found = [_tick(step, power) for power in powers for step in STEPS]
    return [tick for tick in found if low <= tick <= high]


def _below(value: float) -> float:
    power = math.floor(math.log10(value))
    ticks = [_tick(step, each) for each in (power - 1, power, power + 1) for step in STEPS]
    return max(tick for tick in ticks if tick <= value)


def _above(value: float) -> float:
    power = math.floor(math.log10(value))
    ticks = [_tick(step, each) for each in (power - 1, power, power + 1) for step in STEPS]
    return min(tick for tick in ticks if tick >= value)


def _tick(step: int, power: int) -> float:
    return float(f"{step}e{power}")
