"""The interval of a trend holds the slope, whether values vary around a line or walk at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import accumulate, islice

import pytest

from lab.soak import trend

COUNT = 400  # values, one a second
RUNS = 100
SLOPE = 0.01


def white(rng: random.Random) -> Iterator[float]:
    while True:
        yield rng.gauss(0, 1)


def correlated(rng: random.Random) -> Iterator[float]:
    """Values that remember each other for some 10 s."""
    value = 0.0
    while True:
        value = 0.9 * value + rng.gauss(0, 1)
        yield value


def steps(rng: random.Random) -> Iterator[float]:
    """A random walk: steps up and down that remain, each at a random time."""
    return accumulate(rng.choice((-1, 1)) * (rng.random() < 0.1) for _ in range(COUNT))


@pytest.mark.parametrize("noise", [white, correlated, steps])
def test_the_interval_holds_the_slope_in_most_runs(
    noise: Callable[[random.Random], Iterator[float]],
) -> None:
    rng, held = random.Random(1), 0
    for _ in range(RUNS):
        values = [SLOPE * at + each for at, each in enumerate(islice(noise(rng), COUNT))]
        found = trend.fit(range(COUNT), values)
        assert found is not None
        held += found.low <= SLOPE <= found.high
    assert held >= 90


def test_a_line_has_its_slope_and_a_constant_none() -> None:
    line = trend.fit([0.5 * n for n in range(80)], [3 + 2 * n for n in range(80)])
    assert line is not None
    assert (line.slope, line.low, line.high) == pytest.approx((4, 4, 4))
    assert line.per_minute().slope == pytest.approx(240)
    assert trend.fit(range(80), [7] * 80) == trend.Trend(0, 0, 0)


def test_a_step_between_any_two_values_belongs_to_a_block() -> None:
    for at in range(1, 80):
        found = trend.fit(range(80), [float(n >= at) for n in range(80)])
        assert found is not None
        assert found.slope > 0, at
        assert found.low <= 0, at  # one step is no trend


def test_too_few_values_have_no_trend() -> None:
    assert trend.fit([], []) is None
    assert trend.fit([1, 1], [1, 2]) is None
    assert trend.fit(range(15), range(15)) is None
    assert trend.fit([0, *range(1000, 1080)], range(81)) is None  # a gap without values
    with pytest.raises(ValueError, match="2 times do not match 1 values"):
        trend.fit([1, 2], [1])
