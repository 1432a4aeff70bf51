"""Percentiles are those of the sorted samples; a histogram's are within 1 % of them."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram

from bench.stats.percentile import Histogram, nearest_rank

SHARES = [0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1]
rng = random.Random(7)
SAMPLES = {
    "exponential": [2e-5 + rng.expovariate(20) for _ in range(20_000)],
    "log-normal": [rng.lognormvariate(-5, 2) for _ in range(20_000)],
    "a stall": [0.008] * 9_900 + [1.0 - i / 100 for i in range(100)],
    "one": [0.05],
    "1 us to an hour": [10 ** rng.uniform(-6, math.log10(3600)) for _ in range(20_000)],
}


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("n", [1, 2, 99, 100, 1000])
def test_the_nearest_rank_is_numpys(n: int, share: float) -> None:
    samples = sorted(rng.random() for _ in range(n))
    assert nearest_rank(samples, share) == np.quantile(samples, share, method="inverted_cdf")


@pytest.mark.parametrize("percent", range(101))
def test_the_percentiles_of_1_to_100_are_themselves(percent: int) -> None:
    assert nearest_rank(range(1, 101), percent / 100) == max(1, percent)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", SAMPLES)
def test_a_histograms_quantile_is_within_1_percent(name: str, share: float) -> None:
    exact = nearest_rank(sorted(SAMPLES[name]), share)
    assert Histogram.of(SAMPLES[name]).quantile(share) == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("percent", [50, 90, 99, 99.9])
def test_a_histograms_quantile_is_hdrhistograms(percent: float) -> None:
    theirs = HdrHistogram(1, 3_600_000_000, 3)
    for seconds in SAMPLES["exponential"]:
        theirs.record_value(round(seconds * 1e6))
    expected = theirs.get_value_at_percentile(percent) / 1e6
    ours = Histogram.of(SAMPLES["exponential"]).quantile(percent / 100)
    assert ours == pytest.approx(expected, rel=0.012)  # theirs is off by 0.1 % itself


def test_merging_is_counting_together() -> None:
    a, b = SAMPLES["exponential"], SAMPLES["a stall"]
    assert Histogram.of(a) + Histogram.of(b) == Histogram.of(a + b)


def test_nothing_merges_with_nothing() -> None:
    assert sum([Histogram.of([1.0]), Histogram()], Histogram()) == Histogram.of([1.0])


@pytest.mark.parametrize("name", SAMPLES)
def test_json_keeps_a_histogram(name: str) -> None:
    ours = Histogram.of(SAMPLES[name])
    assert Histogram.from_json(json.loads(json.dumps(ours.to_json()))) == ours


def test_a_histogram_keeps_only_buckets_with_counts() -> None:
    assert Histogram.of([1e-6, 3600, 1e-6]).counts == {0: 2, 1111: 1}


def test_what_is_shorter_than_a_microsecond_counts_as_one() -> None:
    assert Histogram.of([0, 1e-9, 1e-6]).counts == {0: 3}


def test_without_samples_there_is_no_percentile() -> None:
    assert (nearest_rank([], 0.5), Histogram().quantile(0.5)) == (None, None)


@pytest.mark.parametrize("share", [-0.1, 1.1, 99, math.nan])
def test_a_share_outside_0_to_1_is_a_value_error(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        nearest_rank([1.0], share)
    with pytest.raises(ValueError, match="share"):
        Histogram().quantile(share)


@pytest.mark.parametrize("seconds", [-1e-9, math.inf, math.nan])
def test_an_impossible_duration_is_a_value_error(seconds: float) -> None:
    with pytest.raises(ValueError, match="duration"):
        Histogram.of([seconds])


@pytest.mark.parametrize("counts", [{"a": 1}, {"-1": 1}, {"1": 0}, {"1": 1.5}, {"1": -2}])
def test_what_is_no_histogram_is_a_value_error(counts: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="histogram"):
        Histogram.from_json(counts)
