"""A mean that is corrected by a second value has less error, and its interval is right."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator

import pytest

from offload.engine import decisions

SIMULATIONS = 400
TRUTH = 0.1


def samples(
    slope: float, n: int, speed_sd: float = 0.06, sd: float = 0.05, effect: float = 0.0
) -> Iterator[tuple]:
    """Yield y and x of `n` pairs. The mean of y is TRUTH, and x contains `effect`."""
    rng = random.Random(n)
    for _ in range(SIMULATIONS):
        speeds = [rng.gauss(0, speed_sd) for _ in range(n)]
        y = [TRUTH - slope * speed + rng.gauss(0, sd) for speed in speeds]
        yield y, [speed + effect for speed in speeds]


@pytest.mark.parametrize("effect", [0.0, 0.03])
@pytest.mark.parametrize("slope", [0.0, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_intervals_contain_the_truth(slope: float, n: int, effect: float) -> None:
    found = [decisions.corrected_mean(y, x) for y, x in samples(slope, n, effect=effect)]
    covered = sum(abs(each.value - TRUTH) <= each.half_width(0.05) for each in found)
    assert covered / SIMULATIONS > 0.90  # 95 % with an error of 1 %


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_an_effect_of_what_is_compared_is_hardly_corrected(n: int) -> None:
    """As of processes that leave other data in the caches, on a machine with a constant speed."""
    found = [decisions.corrected_mean(y, x) for y, x in samples(1.8, n, 0.01, 0.02, effect=0.06)]
    mean = statistics.fmean(each.value for each in found)
    assert abs(mean - TRUTH) < 0.2 * 1.8 * 0.06  # of the correction by the whole effect


def test_the_error_is_less_than_half_if_the_speed_explains_most_of_it() -> None:
    both = [
        (decisions.plain_mean(y), decisions.corrected_mean(y, x))
        for y, x in samples(2.0, 6, speed_sd=0.2, sd=0.02)
    ]
    plain, corrected = (statistics.pstdev([pair[place].value for pair in both]) for place in (0, 1))
    assert corrected < plain / 2
    widths = [(one.half_width(0.05), other.half_width(0.05)) for one, other in both]
    assert statistics.median(other / one for one, other in widths) < 0.5


def test_values_that_do_not_depend_on_the_speed_are_hardly_corrected() -> None:
    """Such as the rates of servers that sleep: they hardly vary."""
    for y, x in samples(0.0, 5, sd=0.001):
        plain, found = decisions.plain_mean(y), decisions.corrected_mean(y, x)
        assert found.half_width(0.05) <= 2 * plain.half_width(0.05)
        assert abs(found.value - plain.value) < 0.01


def test_a_difference_of_speeds_that_is_no_chance_is_an_effect_and_stays() -> None:
    """Such as that of a server that uses both hardware threads of a core."""
    rng = random.Random(1)
    x = [0.2 + rng.gauss(0, 0.01) for _ in range(8)]
    y = [-2 * speed for speed in x]
    assert decisions.corrected_mean(y, x).value == pytest.approx(-0.4, abs=0.03)


def test_equal_values_have_no_error() -> None:
    found = decisions.corrected_mean([0.1, 0.1], [0.0, 0.0])
    assert (found.value, found.error) == (pytest.approx(0.1), 0.0)
    assert math.isfinite(found.half_width(0.05))
