"""The method keeps its error rates on simulated data, and a worse method is detected."""

from __future__ import annotations

import math
import random

import pytest

from lab.method import resampling
from lab.method.resampling import ResamplingResult, aa_test, coverage, gate_test, power
from offload.engine import intervals
from tests.bench.stats.oracle import stats


def simulated_rates(spread: float, seed: int = 1) -> list[float]:
    rng = random.Random(seed)
    return [80 * math.exp(rng.gauss(0, spread)) for _ in range(300)]


def disturbed(by: float) -> list[float]:
    """Visits that vary by 1 %, and one in ten of them is slower by a share."""
    return [rate * (1 - by if i % 10 == 0 else 1) for i, rate in enumerate(simulated_rates(0.01))]


def pairs(sd: float, seed: int = 2) -> list[tuple[float, float]]:
    rng = random.Random(seed)
    return [(80.0, 80 * math.exp(rng.gauss(0.005, sd))) for _ in range(300)]  # B is luckier


@pytest.mark.parametrize("spread", [0.01, 0.02, 0.04])
@pytest.mark.parametrize("design", [intervals.NORMAL, intervals.QUICK])
def test_intervals_have_their_nominal_coverage(
    design: intervals.SequentialDesign, spread: float
) -> None:
    result = coverage(simulated_rates(spread), runs=400, rng=random.Random(3), design=design)
    assert result.high >= resampling.NOMINAL_COVERAGE


@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_runs_pass_as_the_method_requires(seed: int) -> None:
    assert coverage(simulated_rates(0.025, seed), rng=random.Random(seed)).passed


def test_rates_disturbed_by_as_much_as_they_vary_are_covered() -> None:
    assert (
        coverage(disturbed(0.02), runs=400, rng=random.Random(4)).high
        >= resampling.NOMINAL_COVERAGE
    )


def test_rare_and_large_disturbances_are_not_covered_and_that_is_caught() -> None:
    # six in ten runs see none in their first five rounds, and stop: 85 % coverage, not 95 %
    result = coverage(disturbed(0.1), runs=400, rng=random.Random(4))
    assert (result.passed, result.high < resampling.NOMINAL_COVERAGE) == (False, True)


def test_looks_at_5_percent_each_are_caught() -> None:
    uncorrected = intervals.SequentialDesign(intervals.NORMAL.counts, 0.05, 0.05)
    result = coverage(simulated_rates(0.025), None, 2000, random.Random(5), uncorrected)
    assert (result.passed, result.high < resampling.NOMINAL_COVERAGE) == (False, True)


def test_a_biased_rate_is_caught() -> None:
    assert not coverage(simulated_rates(0.01), truth=81.5, rng=random.Random(6)).passed


@pytest.mark.parametrize("sd", [0.02, 0.05, 0.15])
def test_a_case_does_not_differ_from_itself(sd: float) -> None:
    assert aa_test(pairs(sd), rng=random.Random(7)).passed


def test_exchanging_at_random_removes_the_advantage_of_the_second_place() -> None:
    assert aa_test([(80.0, 88.0), (80.0, 88.1)], rng=random.Random(8)).share < 0.2


def test_a_difference_of_10_percent_is_found() -> None:
    result = power(pairs(0.02), rng=random.Random(9))
    assert (result.passed, result.share >= 0.99) == (True, True)


def test_a_difference_of_2_percent_is_not_found_in_90_percent() -> None:
    assert not power(pairs(0.02), effect=0.02, rng=random.Random(10)).passed


@pytest.mark.parametrize("cases", [1, 10])
@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_a_gate_is_rarely_red_without_a_loss_beyond_its_limit(cases: int, loss: float) -> None:
    pools = [pairs(0.1), pairs(0.002, seed=5)]
    result = gate_test(pools, loss, gates=300 // cases, cases=cases, rng=random.Random(1))
    assert result.passed
    assert result.hits <= 3


def test_a_gate_finds_a_loss_of_12_percent_in_noisy_rounds() -> None:
    result = gate_test([pairs(0.1)], 0.12, gates=100, rng=random.Random(1))
    assert result.share >= 0.95
    assert not result.passed  # it passes if few are red


def test_the_interval_of_a_result_is_scipys() -> None:
    result = power(pairs(0.02), effect=0.05, rng=random.Random(11))
    theirs = stats.binomtest(result.hits, 200).proportion_ci(0.95, "exact")
    assert (result.low, result.high) == pytest.approx((theirs.low, theirs.high))


def test_the_same_seed_has_the_same_result() -> None:
    first, again = (coverage(simulated_rates(0.02), rng=random.Random(12)) for _ in range(2))
    assert first == again


def test_a_share_is_hits_by_trials() -> None:
    assert ResamplingResult(95, 100, 0.89, 0.98, True).share == 0.95


@pytest.mark.parametrize("result", [coverage, aa_test])
def test_nothing_to_resample_is_a_value_error(result: object) -> None:
    with pytest.raises(ValueError, match="nothing to resample"):
        result([])


@pytest.mark.parametrize("flat", [[], [(80, 81)], [(80, 80), (40, 40)]])
def test_pairs_that_do_not_vary_are_a_value_error(flat: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="without variance"):
        power(flat)
