"""Figures just below, at and just above each threshold of the statistics."""

from __future__ import annotations

import math
import random

import pytest

from offload.engine import decisions, intervals
from offload.engine.decisions import (
    DOES_NOT,
    HOLDS,
    IN_PART,
    UNRESOLVED,
    classify_replication,
    explain_replication,
)
from offload.engine.figures import Ceiling, ceilings, little_ratio, share_of_ceiling
from offload.engine.gil_sampler import share_interval, standard_error
from offload.engine.intervals import estimate, target_half_width
from offload.studies.scale.models import Choice, aicc, choose, knee, positive_log_fit, too_few, usl

LINE = [(n, n * 10.0) for n in (1, 2, 4, 8, 16, 32)]


@pytest.mark.parametrize(
    ("word", "claimed", "low", "high", "reason"),
    [
        (HOLDS, 2.0, 1.9, 2.1, "as published"),
        (HOLDS, 2.0, 2.21, 3.0, "the difference is larger here"),
        (HOLDS, 2.0, 2.19, 3.0, "as published"),
        (HOLDS, 0.5, 0.3, 0.45, "the difference is larger here"),
        (HOLDS, 0.5, 0.3, 0.46, "as published"),
        (HOLDS, None, 1.5, 2.0, "larger, as claimed"),
        (IN_PART, 4.0, 1.5, 2.0, "the same direction, a smaller difference"),
        (DOES_NOT, 4.0, 0.5, 0.6, "the other direction"),
        (DOES_NOT, 0.2, 1.5, 1.6, "the other direction"),
        (DOES_NOT, 4.0, 0.9, 1.1, "no difference here"),
        (DOES_NOT, 4.0, 1.0, 1.1, "no difference here"),
        (DOES_NOT, 4.0, 0.9, 1.0, "no difference here"),
        (UNRESOLVED, 4.0, 0.5, 9.0, "the interval is too wide"),
    ],
)
def test_a_verdict_on_a_difference_has_its_own_reason(
    word: str, claimed: float | None, low: float, high: float, reason: str
) -> None:
    assert explain_replication(word, claimed, False, low, high) == reason


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        (HOLDS, "no difference that matters"),
        (DOES_NOT, "there is a difference"),
        (UNRESOLVED, "more rounds are needed"),
    ],
)
def test_a_verdict_on_no_difference_has_its_own_reason(word: str, reason: str) -> None:
    assert explain_replication(word, 1.0, True, 1.2, 1.3) == reason


@pytest.mark.parametrize(
    ("claimed", "low", "high", "word"),
    [
        (4.0, 1.5, 3.64, HOLDS),  # x 1.1 it is the claim
        (4.0, 1.5, 3.63, IN_PART),
        (4.0, 1.0, 3.9, UNRESOLVED),  # an interval that begins at 1 has no direction
        (4.0, 0.99, 2.0, DOES_NOT),  # 2 is as near to 4 as to 1, in ratios
        (4.0, 0.99, 2.01, UNRESOLVED),
        (1.1, 0.95, 1.1, HOLDS),
        (1.1, 0.8, 1.1, DOES_NOT),  # too wide to hold what is so small
        (1.1, 0.8, 1.11, UNRESOLVED),
        (None, 0.95, 1.1, DOES_NOT),
        (None, 0.95, 1.11, UNRESOLVED),
        (None, 1.01, 1.02, HOLDS),
    ],
)
def test_a_claim_of_a_difference_at_its_edges(
    claimed: float | None, low: float, high: float, word: str
) -> None:
    assert classify_replication(claimed, False, low, high) == word


@pytest.mark.parametrize(
    ("claimed", "low", "high", "word"),
    [
        (1.0, 0.92, 1.1, HOLDS),
        (1.0, 0.92, 1.12, UNRESOLVED),  # wider than the slack to both sides
        (1.0, 1.09, 1.2, HOLDS),
        (1.0, 1.11, 1.2, DOES_NOT),
        (1.0, 0.8, 0.9, DOES_NOT),
        (1.0, 0.8, 0.92, HOLDS),
        (1.3, 1.2, 1.4, HOLDS),
        (1.3, 1.05, 1.12, UNRESOLVED),
    ],
)
def test_a_claim_of_no_difference_at_its_edges(
    claimed: float, low: float, high: float, word: str
) -> None:
    assert classify_replication(claimed, True, low, high) == word


def test_a_model_is_refused_beyond_a_tenth() -> None:
    def bent(share: float) -> Choice:
        return choose([(n, x * (1 + share * (-1) ** i)) for i, (n, x) in enumerate(LINE)])

    assert bent(0.09).fit is not None
    refused = bent(0.12)
    assert refused.fit is None
    assert refused.reason is not None
    assert refused.reason.endswith("at one point, more than 10 %")


def test_six_different_counts_are_enough_for_a_model() -> None:
    assert too_few([1, 2, 3, 4, 5, 6]) is None
    assert too_few([1, 2, 3, 4, 5, 5]) is not None


@pytest.mark.parametrize("kappa", [0.0031, 0.0047, 0.011])
def test_the_peak_of_a_usl_is_where_its_curve_is_highest(kappa: float) -> None:
    def rate(n: float) -> float:
        return 120 * n / (1 + 0.05 * (n - 1) + kappa * n * (n - 1))

    peak = usl([(n, rate(n)) for n in (1, 2, 4, 8, 16, 32)]).peak
    assert peak is not None
    assert peak == pytest.approx(math.sqrt(0.95 / kappa), rel=1e-4)
    assert rate(peak) >= max(rate(0.99 * peak), rate(1.01 * peak))


def test_a_knee_among_the_points_is_seen_and_a_line_has_none() -> None:
    points = [(n, min(n, 16) * 10.0) for n in (1, 2, 4, 8, 16)]
    assert knee([*points, (20, 160.0)]).peak == pytest.approx(16)
    with pytest.raises(ValueError, match="5 points are needed, not 4"):
        knee(points[:4])
    assert knee([(1, 10.0), *points[1:]]).parameters["rate_max"] is None


def test_a_fit_of_wild_values_still_finds_the_least_error() -> None:
    rng = random.Random(24)  # here whole steps go too far
    rows = [(1.0, n - 1.0, n * (n - 1.0)) for n in (1, 2, 4, 8, 16, 32)]
    values = [math.exp(rng.gauss(0, 2)) for _ in rows]
    found = positive_log_fit(rows, values)
    models = [sum(c * x for c, x in zip(found, row, strict=True)) for row in rows]
    error = sum(math.log(v / m) ** 2 for v, m in zip(values, models, strict=True))
    assert error == pytest.approx(42.5917, abs=1e-3)


def test_criteria_rise_with_parameters_and_know_no_error_below_a_thousandth() -> None:
    assert aicc(0.0, 10, 2) == aicc(10e-6, 10, 2) < aicc(11e-6, 10, 2)
    assert aicc(0.1, 10, 3) > aicc(0.1, 10, 2)
    assert aicc(0.1, 6, 4) == pytest.approx(6 * math.log(0.1 / 6) + 8 + 40)


def test_the_schedules_are_as_documented() -> None:
    assert intervals.SequentialDesign((5, 10, 20, 40), 0.0182) == intervals.NORMAL
    assert intervals.SequentialDesign((3, 5, 7), 0.0234) == intervals.QUICK
    assert intervals.SequentialDesign((2,), 0.02).last == 2


def test_the_target_is_loose_for_slow_cases_and_with_quick() -> None:
    assert [target_half_width(rate) for rate in (None, 1.99, 2.0, 100.0)] == [
        0.02,
        0.05,
        0.02,
        0.02,
    ]
    assert target_half_width(100.0, quick=True) == 0.05


def test_an_estimate_is_resolved_at_a_look_only_and_at_its_target_still() -> None:
    rates = [10.0, 10.02, 9.98, 10.01, 9.99]
    width = estimate(rates).half_width
    assert width is not None
    assert estimate(rates, target=width).resolved
    assert not estimate(rates, target=width * 0.999).resolved
    assert not estimate([*rates, 10.0]).resolved
    assert estimate(rates, quantum=0.01).half_width == pytest.approx(width + 0.01)
    with pytest.raises(ValueError, match="shares must be 0 or more"):
        estimate(rates, target=-0.01)
    with pytest.raises(ValueError, match="shares must be 0 or more"):
        estimate(rates, quantum=-0.01)


def test_two_rates_are_enough_for_an_interval_and_one_is_not() -> None:
    assert estimate([4.0]).half_width is None
    found = estimate([4.0, None, 9.0])
    assert (found.n, found.value) == (2, pytest.approx(6.0))
    assert found.low is not None
    assert found.high is not None
    assert found.value / found.low == pytest.approx(found.high / found.value)


def test_two_pairs_are_enough_for_a_ratio_and_one_is_not() -> None:
    assert intervals.geometric_mean_ratio([(1.0, 2.0), (3.0, 6.0)]) == pytest.approx((2, 2, 2))
    assert intervals.geometric_mean_ratio([(1.0, 2.0)]) is None
    found = intervals.geometric_mean_ratio([(1.0, 1.0), (1.0, 4.0)], alpha=0.5)
    assert found is not None
    assert found[0] == pytest.approx(2.0)
    assert found[2] / found[0] == pytest.approx(found[0] / found[1]) == pytest.approx(2.0)


def test_a_quantile_of_t_is_known_to_be_from_0_to_1() -> None:
    for p in (0.0, 1.0, -0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            intervals.t_quantile(p, 3)
    assert intervals.t_quantile(0.5, 3) == pytest.approx(0, abs=1e-12)
    assert intervals.t_quantile(0.975, 1) == pytest.approx(12.7062, abs=1e-4)
    assert intervals.two_sided_p(math.inf, 3) == intervals.two_sided_p(-math.inf, 3) == 0.0
    assert intervals.two_sided_p(0.0, 3) == 1.0


@pytest.mark.parametrize(("x", "a", "b"), [(-0.1, 1, 1), (1.1, 1, 1), (0.5, 0, 1), (0.5, 1, 0)])
def test_the_beta_function_is_not_known_elsewhere(x: float, a: float, b: float) -> None:
    with pytest.raises(ValueError, match="not defined"):
        intervals.beta_cdf(x, a, b)


def test_the_beta_function_is_exact_at_its_ends_and_its_mirror() -> None:
    assert (intervals.beta_cdf(0, 2, 3), intervals.beta_cdf(1, 2, 3)) == (0.0, 1.0)
    for x in (0.1, 0.3, 0.42, 0.43, 0.9):
        assert intervals.beta_cdf(x, 2, 3) == pytest.approx(1 - intervals.beta_cdf(1 - x, 3, 2))
        exact = 6 * x**2 - 8 * x**3 + 3 * x**4
        assert intervals.beta_cdf(x, 2, 3) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("counts", [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_have_no_share(counts: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="impossible"):
        intervals.binomial_interval(*counts)


def test_one_trial_has_a_share() -> None:
    assert intervals.binomial_interval(0, 1) == (0.0, pytest.approx(0.975))
    assert intervals.binomial_interval(1, 1) == (pytest.approx(0.025), 1.0)


def test_a_share_of_equal_samples_has_wilsons_interval() -> None:
    z2 = 1.959964**2
    share, low, high = share_interval([1.0] * 10)
    assert (share, low, high) == (1.0, pytest.approx(10 / (10 + z2), abs=1e-6), 1.0)
    assert share_interval([0.0] * 10)[2] == pytest.approx(z2 / (10 + z2), abs=1e-6)
    assert share_interval([0.5])[0] == 0.5
    with pytest.raises(ValueError, match="at least one sample"):
        share_interval([])


def test_an_error_is_the_largest_over_blocks_of_eight_or_more() -> None:
    assert standard_error([0.0, 1.0] * 3 + [0.0]) == 0.0
    assert standard_error([0.0, 1.0] * 4) == pytest.approx(0.5 / math.sqrt(7))
    slow = [0.0] * 8 + [1.0] * 8  # blocks of two are no smaller in their spread
    assert standard_error(slow) == pytest.approx(0.5 / math.sqrt(7))
    assert standard_error([0.0, 1.0] * 8) == pytest.approx(0.5 / math.sqrt(15))


def test_ceilings_are_known_of_what_is_neither_none_nor_0() -> None:
    known = ceilings(workers=4, service_s=0.5, users=10, cores=2, cpu_s=1.0)
    assert [(c.kind, c.rate) for c in known] == [("cpu", 2.0), ("pool", 8.0), ("users", 20.0)]
    assert ceilings(workers=4, service_s=0, users=10) == []
    assert ceilings(workers=0, service_s=2.0) == [Ceiling("pool", 0.0)]
    assert share_of_ceiling(4.0, known) == 2.0
    assert share_of_ceiling(4.0, []) is None
    assert share_of_ceiling(None, known) is None
    for wrong in (-1, math.inf, math.nan):
        with pytest.raises(ValueError, match="numbers of 0 or more or None"):
            little_ratio(wrong, 1.0, 1.0)


def test_a_verdict_needs_two_pairs_and_reports_how_many_more() -> None:
    assert decisions.compare_pairs([]).ratio is None
    one = decisions.compare_pairs([(10.0, 12.0)])
    assert (one.outcome, one.ratio, one.pairs) == (decisions.UNRESOLVED, pytest.approx(1.2), 1)
    two = decisions.compare_pairs([(10.0, 12.0), (10.0, 12.5)])
    assert two.low is not None
    assert (two.ratio, two.pairs) == (pytest.approx(1.2247, abs=1e-4), 2)
    assert decisions.additional_pairs(0.02, 0, 0.02) == 5  # 2.1 squared is 4.41
    assert [decisions.additional_pairs(0.02, done, 0.02) for done in (3, 4, 5, 9)] == [2, 1, 1, 1]
    for wrong in ({"alpha": 0}, {"alpha": 1}, {"effect": 0}):
        with pytest.raises(ValueError, match="shares above 0"):
            decisions.compare_pairs([(1.0, 1.0)] * 3, **wrong)


def test_identical_pairs_are_the_same_or_differ_without_doubt() -> None:
    same = decisions.compare_pairs([(10.0, 10.0)] * 5)
    assert (same.outcome, same.p, same.more_pairs) == (decisions.SAME, 1.0, 0)
    faster = decisions.compare_pairs([(10.0, 20.0)] * 5)
    assert (faster.outcome, faster.p) == (decisions.FASTER, 0.0)
    assert decisions.compare_pairs([(20.0, 10.0)] * 5).outcome == decisions.SLOWER
    assert (
        decisions.compare_pairs([(100.0, 101.0)] * 5).outcome == decisions.SAME
    )  # it is inside the effect


def rejected(p_values: list[float], alpha: float) -> list[bool]:
    return [
        p <= level
        for p, level in zip(p_values, decisions.holm_levels(p_values, alpha), strict=True)
    ]


def test_holm_stops_at_the_first_that_does_not_survive() -> None:
    # 0.010 <= 0.05/4, 0.013 <= 0.05/3, 0.03 > 0.05/2 stops: 0.04 fails although it is below 0.05
    assert rejected([0.04, 0.010, 0.03, 0.013], 0.05) == [False, True, False, True]
    assert rejected([], 0.05) == []
    assert rejected([0.01, 0.03, 0.02], 0.06) == [True, True, True]
    assert rejected([0.02, 0.03, 0.031], 0.06) == [True, True, True]
    assert rejected([0.021, 0.001, 0.031], 0.06) == [True, True, True]
    assert rejected([0.031, 0.001, 0.031], 0.06) == [False, True, False]
    assert rejected([0.021, 0.06, 0.07], 0.06) == [False, False, False]
