"""Axes contain every value, and their ticks are few and round."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as some

from offload.documents.pictures import MOST, linear_axis, log_axis, plain_label
from offload.units import seconds

positive = some.lists(some.floats(1e-6, 1e9), min_size=1, max_size=20)
any_number = some.lists(some.floats(-1e6, 1e6), min_size=1, max_size=20)


def plain(value: float) -> str:
    return f"{value:g}"


@given(positive)
def test_a_logarithmic_axis_contains_all_values(values: list[float]) -> None:
    found = log_axis(values, plain)
    assert found.low <= min(values) <= max(values) <= found.high
    assert found.low < found.high
    assert 1 <= len(found.ticks) <= MOST
    assert list(found.ticks) == sorted({*found.ticks})
    assert all(f"{tick:e}"[0] in "125" for tick in found.ticks)


@given(any_number)
def test_a_linear_axis_contains_all_values_and_both_of_its_ends_are_ticks(
    values: list[float],
) -> None:
    found = linear_axis(values, plain)
    rounding = 1e-8 * (found.high - found.low)
    assert found.low <= min(0.0, *values) + rounding
    assert found.high >= max(values) - rounding
    assert (found.ticks[0], found.ticks[-1]) == (found.low, found.high)
    assert 2 <= len(found.ticks) <= MOST + 2


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([4.14, 0.52], (0.5, 1.0, 2.0, 5.0)),
        ([1.0], (0.5, 1.0, 2.0)),
        ([3.56, 4216.0], (10.0, 100.0, 1000.0)),
        ([0.0, -1.0, math.inf, 7.0], (5.0, 10.0)),
    ],
)
def test_ticks_of_a_logarithmic_axis(values: list[float], ticks: tuple[float, ...]) -> None:
    assert log_axis(values, plain).ticks == ticks


def test_ticks_of_a_linear_axis() -> None:
    assert linear_axis([134.0, 18.0], plain).ticks == (0.0, 50.0, 100.0, 150.0)
    assert linear_axis([], plain).ticks[0] == 0.0


def test_each_tick_has_its_place_and_its_label() -> None:
    found = log_axis([0.5, 2.0], lambda ratio: f"{ratio:g}x")
    places, labels = zip(*found.labelled(0, 100), strict=True)
    assert labels == ("0.5x", "1x", "2x")
    assert places == pytest.approx((0, 50, 100))
    small = log_axis([3e-5, 1e-4], seconds).labelled(0, 400)
    assert [label for _, label in small] == ["20 us", "50 us", "100 us"]


def test_labels_that_would_overlap_are_left_out() -> None:
    found = linear_axis([1e6], lambda value: f"{value:.0f} requests/s")
    assert len(found.ticks) > len(found.labelled(0, 100)) > 1
    assert len(found.labelled(0, 1000)) == len(found.ticks)


def test_a_value_beyond_the_ends_is_at_an_end() -> None:
    found = linear_axis([10.0], plain_label)
    assert [found.place(value, 5, 25) for value in (-1, 0, 5, 10, 99)] == [5, 5, 15, 25, 25]
