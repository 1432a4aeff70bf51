"""A verdict follows from its interval and the effect size; the numbers agree with scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from offload.engine import intervals
from offload.engine.decisions import additional_pairs, compare_pairs
from tests.bench.stats.oracle import stats

Z = [-1.0, -0.5, 0.0, 0.5, 1.0]  # five log-ratios, to be moved and stretched


def pairs(ratio: float, sd: float, times: int = 1) -> list[tuple[float, float]]:
    return [(80.0, 80 * ratio * math.exp(sd * z)) for z in Z * times]


@pytest.mark.parametrize(
    ("word", "ratio", "sd"),
    [
        ("faster", 1.1, 0.02),
        ("slower", 0.9, 0.02),
        ("same", 1.0, 0.01),
        ("same", 1.01, 0.004),  # excludes 1 too: sure of a difference that is inside the effect
        ("tiny", 1.015, 0.009),
        ("tiny", 1 / 1.015, 0.009),
        ("unresolved", 1.0, 0.1),
        ("unresolved", 1.1, 0.1),
        ("unresolved", 1.01, 0.01),
    ],
)
def test_the_word_is_the_methods(word: str, ratio: float, sd: float) -> None:
    assert word == compare_pairs(pairs(ratio, sd)).outcome


def test_with_a_larger_effect_a_small_difference_is_the_same() -> None:
    small = pairs(1.03, 0.01)
    assert [compare_pairs(small, effect=e).outcome for e in (0.02, 0.05)] == ["faster", "same"]


def test_the_interval_and_p_are_scipys() -> None:
    a, b = np.log(pairs(1.1, 0.05, 2)).T
    theirs = stats.ttest_rel(b, a)
    low, high = np.exp(theirs.confidence_interval(1 - intervals.NORMAL.level))
    ours = compare_pairs(pairs(1.1, 0.05, 2))
    assert (ours.low, ours.high, ours.p) == pytest.approx((low, high, theirs.pvalue), rel=1e-9)


def test_the_ratio_is_b_over_a() -> None:
    assert compare_pairs([(40, 80)] * 5).ratio == pytest.approx(2)


def test_exchanging_a_and_b_turns_the_verdict_round() -> None:
    there = compare_pairs(pairs(1.021, 0.005))
    back = compare_pairs([(b, a) for a, b in pairs(1.021, 0.005)])
    assert (there.outcome, back.outcome) == ("faster", "slower")
    assert there.low == pytest.approx(1 / back.high)


def test_equal_pairs_are_the_same_without_doubt() -> None:
    ours = compare_pairs([(80.0, 80.0)] * 5)
    assert (ours.outcome, ours.ratio, ours.p, ours.more_pairs) == ("same", 1, 1, 0)


def test_an_unresolved_verdict_reports_how_many_pairs_would_settle_it() -> None:
    ours = compare_pairs(pairs(1.0, 0.1, 2))
    expected = math.ceil((2.1 * ours.sd / 0.02) ** 2) - 10
    assert (ours.more_pairs, ours.pairs) == (expected, 10)


def test_an_unresolved_verdict_wants_one_more_pair_at_least() -> None:
    assert additional_pairs(0.01, 40) == 1


@pytest.mark.parametrize(("few", "ratio"), [([], None), ([(2, 3)], 1.5)])
def test_less_than_two_pairs_are_unresolved(few: list, ratio: float | None) -> None:
    ours = compare_pairs(few)
    known = (ours.outcome, ours.low, ours.high, ours.p, ours.more_pairs)
    assert known == ("unresolved", None, None, None, None)
    assert ours.ratio == pytest.approx(ratio)


@pytest.mark.parametrize("rate", [0, -1, math.inf, math.nan])
def test_a_rate_that_is_no_number_above_0_is_a_value_error(rate: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        compare_pairs([(80.0, rate)])


@pytest.mark.parametrize("shares", [{"alpha": 0}, {"alpha": 1}, {"effect": 0}])
def test_impossible_shares_are_a_value_error(shares: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="shares"):
        compare_pairs(pairs(1, 0.01), **shares)
