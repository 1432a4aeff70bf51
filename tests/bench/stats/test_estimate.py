"""Intervals of rates equal scipy's t intervals of log(rate), and cover with optional stopping."""

from __future__ import annotations

import math
import random

import pytest

from offload.engine import intervals
from offload.engine.intervals import Estimate, estimate, target_half_width
from tests.bench.stats.oracle import np, stats

RATES = [79.5, 80.1, 78.8, 79.9, 79.4]
UNKNOWN = (None, None, None)


def test_the_interval_is_scipys_t_interval_of_the_logarithms() -> None:
    logs = np.log(RATES)
    theirs = stats.ttest_1samp(logs, 0).confidence_interval(1 - intervals.NORMAL.rate_level)
    ours = estimate(RATES)
    expected = (math.exp(theirs.low), stats.gmean(RATES), math.exp(theirs.high))
    assert expected == pytest.approx((ours.low, ours.value, ours.high))


def test_the_half_width_is_the_upper_end_as_a_share() -> None:
    ours = estimate(RATES)
    assert ours.high / ours.value - 1 == pytest.approx(ours.half_width)


def test_five_close_rounds_resolve_a_case() -> None:
    assert estimate(RATES).resolved


def test_a_case_between_two_analyses_is_not_resolved() -> None:
    ours = estimate([*RATES, 79.6])
    assert (ours.half_width < 0.02, ours.resolved) == (True, False)


def test_quick_analyses_three_rounds() -> None:
    assert estimate(RATES[:3], intervals.QUICK).resolved


def test_scattered_rounds_stay_unresolved_at_the_last_analysis() -> None:
    ours = estimate([60.0, 100.0] * 10)
    assert (ours.resolved, round(ours.half_width, 2)) == (False, 0.16)


def test_equal_rates_have_an_interval_as_wide_as_their_quantum() -> None:
    expected = Estimate(50.0, 50 / 1.01, 50 * 1.01, 5, 0.01, True)
    ours = estimate([50.0] * 5, quantum=0.01)
    assert vars(expected) == pytest.approx(vars(ours))


def test_a_coarse_driver_cannot_resolve_a_case() -> None:
    assert not estimate(RATES, quantum=0.0199).resolved


def test_one_round_has_a_rate_and_no_interval() -> None:
    expected = Estimate(50.0, None, None, 1, None, False)
    assert vars(expected) == pytest.approx(vars(estimate([50.0])))


def test_a_round_without_a_rate_is_ignored() -> None:
    assert estimate(RATES) == estimate([None, *RATES, None])


def test_rounds_without_rates_have_no_estimate() -> None:
    assert Estimate(None, None, None, 0, None, False) == estimate(UNKNOWN)


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_a_rate_that_is_no_number_above_0_is_a_value_error(rate: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        estimate([50.0, rate])


@pytest.mark.parametrize("shares", [{"quantum": -0.1}, {"target": -0.1}, {"target": math.nan}])
def test_a_share_below_0_is_a_value_error(shares: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="shares"):
        estimate(RATES, **shares)


@pytest.mark.parametrize(
    ("rate", "quick", "target"),
    [
        (80, False, 0.02),
        (80, True, 0.05),
        (1.9, False, 0.05),
        (2, False, 0.02),
        (None, False, 0.02),
    ],
)
def test_slow_and_quick_cases_have_the_wider_target(
    rate: float | None, quick: bool, target: float
) -> None:
    assert target == target_half_width(rate, quick)


def test_a_slow_case_resolves_within_5_percent() -> None:
    rates = [1.40, 1.45, 1.42, 1.39, 1.44]
    assert (estimate(rates).resolved, estimate(rates, target=0.02).resolved) == (True, False)


@pytest.mark.parametrize("design", [intervals.NORMAL, intervals.QUICK])
@pytest.mark.parametrize("spread", [0.003, 0.02, 0.05])
def test_the_interval_where_a_run_stops_covers_in_95_percent(
    design: intervals.SequentialDesign, spread: float
) -> None:
    rng, hits = random.Random(4), 0
    for _ in range(500):
        rates = [math.exp(rng.gauss(0, spread)) * 80 for _ in range(design.last)]
        stages = (estimate(rates[:n], design) for n in design.counts)
        end = next((stage for stage in stages if stage.resolved), estimate(rates, design))
        hits += end.low <= 80 <= end.high
    assert hits / 500 >= 0.94
