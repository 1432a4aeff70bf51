"""An outlier is beyond 5 MAD of the median; nothing else is."""

from __future__ import annotations

import random

import pytest

from offload.engine.intervals import outliers
from tests.bench.stats.oracle import np, stats


@pytest.mark.parametrize("seed", range(10))
def test_outliers_are_those_of_scipys_mad(seed: int) -> None:
    values = np.random.default_rng(seed).standard_t(2, 50) + 30
    far = abs(values - np.median(values)) > 5 * stats.median_abs_deviation(values)
    assert outliers(list(values)) == list(np.flatnonzero(far))


def test_a_value_far_from_the_others_is_an_outlier() -> None:
    assert outliers([79.5, 80.1, 60.0, 78.8, 79.9, 79.4]) == [2]


def test_one_outlier_does_not_hide_another() -> None:
    assert outliers([79.5, 1.0, 80.1, 60.0, 78.8, 79.9, 79.4]) == [1, 3]


def test_2_percent_from_equal_values_is_no_outlier() -> None:
    assert outliers([50.0, 50.0, 51.0, 50.0, 50.0]) == []


def test_3_percent_from_equal_values_is_an_outlier() -> None:
    assert outliers([50.0, 50.0, 51.5, 50.0, 48.5]) == [2, 4]


def test_four_values_have_no_outlier() -> None:
    assert outliers([50.0, 50.0, 50.0, 5.0]) == []


def test_what_is_not_known_is_passed_over_and_keeps_its_index() -> None:
    assert outliers([None, 50.0, 50.1, None, 70.0, 49.9, 50.0]) == [4]
    assert outliers([None, 50.0, 50.1, None, 70.0, 49.9]) == []


def test_of_ten_normal_values_few_are_outliers() -> None:
    rng = random.Random(8)
    found = sum(len(outliers([rng.gauss(80, 2) for _ in range(10)])) for _ in range(500))
    assert found / 5000 < 0.02
