"""The ratio of means is exact if all pairs agree, and its interval covers simulated ratios."""

from __future__ import annotations

import random

import pytest

from lab.pools.ratio_of_means import ratio_of_means


def test_pairs_that_agree_leave_no_doubt() -> None:
    assert ratio_of_means([(1.0, 3.0), (2.0, 6.0), (5.0, 15.0)]) == pytest.approx((3, 3, 3))
    assert ratio_of_means([(1.0, 2.0), (3.0, 6.0)]) == pytest.approx((2, 2, 2))


@pytest.mark.parametrize("pairs", [[], [(1.0, 2.0)], [(-1.0, 1.0), (1.0, 1.0)]])
def test_no_ratio_without_two_pairs_or_a_mean_above_0(pairs: list[tuple[float, float]]) -> None:
    assert ratio_of_means(pairs) is None


def test_the_interval_has_the_truth_in_95_of_100() -> None:
    rng = random.Random(7)
    hits = 0
    for _ in range(2000):
        pairs = [(rng.gauss(100, 10), rng.gauss(130, 10)) for _ in range(10)]
        found = ratio_of_means(pairs)
        assert found is not None
        hits += found[1] < 1.3 < found[2]
    assert 0.93 < hits / 2000 < 0.97
