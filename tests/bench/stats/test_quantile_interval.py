"""The interval of a quantile covers it, also if the requests of a round are correlated."""

from __future__ import annotations

import numpy as np
import pytest

from offload.engine.intervals import quantile_buckets


def rounds(shift: float, seed: int, count: int = 20, requests: int = 100) -> list[dict[int, int]]:
    """Return rounds of normal values in buckets of 0.1; `shift` is the SD between rounds."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        values = rng.normal(rng.normal(0, shift), 1, requests)
        buckets, counts = np.unique(np.ceil(10 * values).astype(int), return_counts=True)
        found.append({int(b): int(c) for b, c in zip(buckets, counts, strict=True)})
    return found


@pytest.mark.parametrize(
    "shift", [0.0, *(pytest.param(shift, marks=pytest.mark.slow) for shift in (1.0, 3.0))]
)
@pytest.mark.parametrize("share", [pytest.param(0.5, marks=pytest.mark.slow), 0.95])
def test_each_end_is_wrong_in_few_of_100(shift: float, share: float) -> None:
    """Also if rounds differ more than the requests of one."""
    spread = (1 + shift**2) ** 0.5
    truth = 10 * spread * {0.5: 0.0, 0.95: 1.645}[share]
    wrong, known = [0, 0], 0
    for seed in range(100):
        low, high = quantile_buckets(rounds(shift, seed), share, 0.05)
        wrong[0] += low is not None and low > truth
        wrong[1] += high is not None and high < truth
        known += high is not None
    assert max(wrong) <= 13  # 100 x 5 %, and what chance adds in 1 of 1,000
    assert known > 75 or (share > 0.5 and shift > 0)


def test_an_end_that_the_rounds_do_not_show_is_unknown() -> None:
    """The slowest 1 % of 20 rounds that differ are a part of one round."""
    highs = [quantile_buckets(rounds(3.0, seed), 0.99, 0.01)[1] for seed in range(20)]
    assert highs.count(None) >= 19


def test_rounds_that_differ_widen_it() -> None:
    narrow, wide = (quantile_buckets(rounds(shift, 1), 0.5, 0.01) for shift in (0.0, 1.0))
    assert None not in (*narrow, *wide)
    assert wide[1] - wide[0] > 2 * (narrow[1] - narrow[0])


def test_few_requests_show_no_upper_end() -> None:
    """None of 100 requests was slower; that does not show that less than 1 % are."""
    same = [{3: 20}] * 5
    assert quantile_buckets(same, 0.99, 0.01) == (2, None)
    assert quantile_buckets(same, 0.5, 0.01) == (2, 3)
    assert quantile_buckets([{3: 500}] * 5, 0.99, 0.01) == (2, 3)


def test_one_round_shows_nothing_and_none_neither() -> None:
    assert quantile_buckets([{1: 500, 2: 500}], 0.5, 0.01) == (None, None)
    assert quantile_buckets([], 0.5, 0.01) == (None, None)


def test_buckets_without_requests_are_not_in_the_interval() -> None:
    assert quantile_buckets([{1: 10, 9: 990}] * 8, 0.5, 0.01) == (8, 9)
    assert quantile_buckets([{1: 900, 9: 100}] * 8, 0.99, 0.01) == (8, 9)
