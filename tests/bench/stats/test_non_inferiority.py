"""Losses beyond and within the margin are distinguished, with the stated error rates."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from offload.engine import decisions, intervals
from offload.engine.decisions import LOSS, NO_LOSS, UNDECIDED
from offload.engine.intervals import GATE, GATE_ERROR
from tests.bench.stats.oracle import stats

LEVEL = GATE.early / 2
Z = (-1.0, -0.5, 0.0, 0.5, 1.0)  # five log ratios, to be moved and stretched


def pairs(ratio: float, sd: float) -> list[tuple[float, float]]:
    return [(80.0, 80 * ratio * math.exp(sd * z)) for z in Z]


def outcome(ratio: float, sd: float, margin: float = 0.05) -> str:
    found = decisions.paired_ratio(pairs(ratio, sd))
    assert found is not None
    return decisions.classify_loss(found.low(LEVEL), found.high(LEVEL), margin)


@pytest.mark.parametrize(
    ("word", "ratio", "sd"),
    [
        (LOSS, 0.8, 0.02),
        (LOSS, 0.88, 0.01),
        (UNDECIDED, 0.88, 0.1),
        (UNDECIDED, 0.95, 0.001),
        (UNDECIDED, 1.0, 0.1),
        (NO_LOSS, 1.0, 0.01),
        (NO_LOSS, 0.97, 0.005),  # lower than the baseline for sure, and within the margin
        (NO_LOSS, 1.3, 0.05),
    ],
)
def test_only_an_interval_on_one_side_of_the_margin_is_a_verdict(
    word: str, ratio: float, sd: float
) -> None:
    assert outcome(ratio, sd) == word


def test_the_ends_and_the_p_value_are_scipys() -> None:
    one, other = pairs(0.9, 0.05), 0.05
    logs = np.log([b / a for a, b in one])
    found = decisions.paired_ratio(one)
    assert found is not None
    low, high = np.exp(stats.ttest_1samp(logs, 0).confidence_interval(1 - 2 * LEVEL))
    assert (found.low(LEVEL), found.high(LEVEL)) == pytest.approx((low, high), rel=1e-9)
    theirs = stats.ttest_1samp(logs, math.log(1 - other), alternative="less").pvalue
    assert decisions.p_of_loss(found, other) == pytest.approx(theirs, rel=1e-9)


def test_runs_of_different_times_are_compared_as_by_welch() -> None:
    rng = np.random.default_rng(2)
    one, other = rng.lognormal(4, 0.1, 6), rng.lognormal(3.9, 0.02, 15)
    found = decisions.unpaired_ratio([*one], [*other])
    assert found is not None
    theirs = stats.ttest_ind(np.log(other), np.log(one), equal_var=False)
    low, high = np.exp(theirs.confidence_interval(0.98))
    assert (found.low(0.01), found.high(0.01)) == pytest.approx((low, high), rel=1e-9)
    assert found.df == pytest.approx(theirs.df)


@pytest.mark.parametrize("ratio", [0.8, 0.96, 1.0])
def test_equal_pairs_are_judged_without_an_error(ratio: float) -> None:
    found = decisions.paired_ratio([(100.0, 100.0 * ratio)] * 5)
    assert found is not None
    assert found.low(LEVEL) == found.high(LEVEL) == pytest.approx(ratio)
    assert decisions.p_of_loss(found, 0.05) == (0.0 if ratio < 0.95 else 1.0)
    equal = decisions.unpaired_ratio([100.0] * 5, [100.0 * ratio] * 3)
    assert equal is not None
    assert (equal.error, equal.df) == (0.0, 2)


def test_fewer_than_two_values_have_no_interval() -> None:
    assert decisions.paired_ratio([(1.0, 2.0)]) is None
    assert decisions.unpaired_ratio([1.0, 2.0], [1.0]) is None


def test_slack_makes_a_loss_harder_to_show() -> None:
    found = decisions.paired_ratio(pairs(0.8, 0.02))
    assert found is not None
    values = [decisions.p_of_loss(found, 0.05, slack) for slack in (0.0, 0.1, 0.3)]
    assert values == sorted(values)
    assert values[0] < LEVEL < 0.5 < values[2]


def test_holms_method_is_the_closed_test_of_bonferroni() -> None:
    """A hypothesis is rejected if Bonferroni rejects each set of hypotheses that contains it."""
    rng, indexes = np.random.default_rng(7), range(5)
    sets = [chosen for size in range(1, 6) for chosen in combinations(indexes, size)]
    for _ in range(200):
        p_values = [*(rng.random(5) ** 4)]
        kept = {chosen for chosen in sets if min(p_values[i] for i in chosen) > 0.05 / len(chosen)}
        closed = [not any(index in chosen for chosen in kept) for index in indexes]
        assert [
            p <= level
            for p, level in zip(p_values, decisions.holm_levels(p_values, 0.05), strict=True)
        ] == closed
        assert min(decisions.holm_levels(p_values, 0.05)) == pytest.approx(0.05 / 5)
    assert decisions.holm_levels([], 0.05) == []


def test_the_number_of_further_rounds_decides_it_in_95_of_100() -> None:
    """The rule of docs/ci.rst: N = ((z + 1.64) s / d)^2 rounds."""
    sd, ratio = 0.1, 0.88
    first = decisions.LogRatio(math.log(ratio), sd / math.sqrt(10), 9, 10)
    count = 10 + (decisions.additional_values(first, 0.05, LEVEL) or 0)
    distance = math.log(0.95) - math.log(ratio)
    z = intervals.normal_quantile(1 - LEVEL) + 1.645
    assert count == pytest.approx((z * sd / distance) ** 2, abs=1)
    logs = np.random.default_rng(3).normal(math.log(ratio), sd, (4000, count))
    error = logs.std(1, ddof=1) / count**0.5
    shown = logs.mean(1) + stats.t.ppf(1 - LEVEL, count - 1) * error < math.log(0.95)
    assert 0.90 < shown.mean() < 0.97


def test_the_levels_of_all_analyses_add_up_to_the_error_rate() -> None:
    levels = [GATE.stopping_level(count) / 2 for count in GATE.counts]
    assert sum(levels) == pytest.approx(GATE_ERROR)
    assert levels[-1] == pytest.approx(GATE_ERROR / 2)


def test_a_loss_on_the_margin_is_decided_by_no_number_of_rounds() -> None:
    found = decisions.LogRatio(math.log(0.95), 0.01, 9, 10)
    assert decisions.additional_values(found, 0.05, LEVEL) is None


@pytest.mark.parametrize("true", [0.95, 1.0])
def test_a_gate_of_many_cases_is_red_by_chance_in_at_most_1_of_100(true: float) -> None:
    """All analyses of all cases together; at 0.95 the loss is just what is allowed."""
    cases, gates, margin = 10, 2000, 0.05
    rng = np.random.default_rng(11)
    shape = (gates, cases, GATE.last)
    logs = math.log(true) + 0.1 * rng.standard_t(
        5,
        shape,
    )  # heavier tails than normal
    red = np.zeros(gates, bool)
    for n in GATE.counts:
        part = logs[:, :, :n]
        t = (part.mean(2) - math.log(1 - margin)) / part.std(2, ddof=1) * n**0.5
        red |= (t < stats.t.ppf(GATE.stopping_level(n) / 2 / cases, n - 1)).any(1)
    assert red.mean() <= 0.01
    assert true == 1.0 or red.any()  # else the level would be too strict


def test_a_gate_is_green_by_chance_in_at_most_1_of_100() -> None:
    logs = math.log(0.95) + 0.05 * np.random.default_rng(5).standard_normal((5000, GATE.last))
    green = np.zeros(len(logs), bool)
    for n in GATE.counts:
        part = logs[:, :n]
        t = (part.mean(1) - math.log(0.95)) / part.std(1, ddof=1) * n**0.5
        green |= t > stats.t.ppf(1 - GATE.stopping_level(n) / 2, n - 1)
    assert 0.002 < green.mean() <= 0.01


def test_an_interval_of_two_values_may_have_no_upper_end() -> None:
    found = decisions.paired_ratio([(1.0, 1000.0), (1000.0, 1.0)])
    assert found is not None
    assert (found.low(0.0005), found.high(0.0005)) == (0.0, math.inf)
