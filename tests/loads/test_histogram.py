"""A histogram's quantiles are within 1 % of the samples' quantiles, also after a merge."""

from __future__ import annotations

import json
import random
import warnings
from itertools import chain

import pytest

from offload.loads.engine.figures import ERROR, histogram, histogram_quantile, merge_histograms
from offload.loads.engine.figures import quantile as exact

with warnings.catch_warnings():  # Python 3.14 deprecates the layout of its structures
    warnings.simplefilter("ignore", DeprecationWarning)
    from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

SHARES = (0.001, 0.5, 0.9, 0.99, 0.999, 1.0)


def samples(seed: int, count: int = 5000) -> list[float]:
    chance = random.Random(seed)
    return sorted(chance.lognormvariate(-5, 2) for _ in range(count))


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("seed", range(5))
def test_a_quantile_is_within_the_error(seed: int, share: float) -> None:
    times = samples(seed)
    near = pytest.approx(exact(times, share), rel=ERROR * 1.0001)
    assert histogram_quantile(histogram(times), share) == near


def test_merging_is_as_if_one_had_seen_all() -> None:
    parts = [samples(seed, 300) for seed in range(4)]
    assert merge_histograms(histogram(part) for part in parts) == histogram(sorted(chain(*parts)))


def test_it_agrees_with_hdrhistogram() -> None:
    times, hdr = samples(7), HdrHistogram(1, 3_600_000_000, 3)
    for t in times:
        hdr.record_value(round(t * 1e6))
    for share in SHARES[1:]:
        oracle = hdr.get_value_at_percentile(100 * share) / 1e6
        assert histogram_quantile(histogram(times), share) == pytest.approx(oracle, rel=0.012)


def test_it_survives_json_and_has_few_buckets() -> None:
    counts = histogram(samples(1))
    assert json.loads(json.dumps(counts)) == counts
    assert len(counts) < 800


def test_nothing_has_no_quantile_and_no_time_is_the_smallest() -> None:
    assert histogram_quantile({}, 0.5) is None
    assert (histogram_quantile(histogram([0.0]), 1.0) or 1) < 1.1e-9
