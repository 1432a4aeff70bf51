"""Student's t, the normal and the binomial agree with scipy."""

from __future__ import annotations

import pytest

from offload.engine import intervals
from tests.bench.stats.oracle import stats

SHARES = [1e-9, 0.0079, 0.025, 0.3, 0.5, 0.7, 0.9921, 0.975, 0.9999]


@pytest.mark.parametrize("df", [1, 2, 3, 4.5, 6, 9, 13, 19, 39, 1000, 1_000_000])
@pytest.mark.parametrize("p", SHARES)
def test_the_quantile_is_scipys(p: float, df: float) -> None:
    assert intervals.t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("p", SHARES)
def test_the_normal_quantile_is_scipys(p: float) -> None:
    assert intervals.normal_quantile(p) == pytest.approx(stats.norm.ppf(p), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("t", [0, 0.1, -2.78, 12.7, 300])
@pytest.mark.parametrize("df", [1, 4, 39])
def test_the_two_sided_p_is_scipys(t: float, df: int) -> None:
    assert intervals.two_sided_p(t, df) == pytest.approx(2 * stats.t.sf(abs(t), df), rel=1e-9)


def test_an_infinite_t_has_no_probability() -> None:
    assert intervals.two_sided_p(float("inf"), 4) == 0


@pytest.mark.parametrize("alpha", [0.05, 0.0158])
def test_the_interval_of_a_mean_is_scipys(alpha: float) -> None:
    values = [14.2, 14.4, 13.9, 14.3]
    theirs = stats.ttest_1samp(values, 0).confidence_interval(1 - alpha)
    assert intervals.mean_interval(values, alpha) == pytest.approx((theirs.low, theirs.high))


@pytest.mark.parametrize(("k", "n"), [(0, 10), (10, 10), (95, 100), (1, 3), (9480, 10_000)])
def test_the_binomial_interval_is_scipys(k: int, n: int) -> None:
    theirs = stats.binomtest(k, n).proportion_ci(0.95, "exact")
    assert intervals.binomial_interval(k, n) == pytest.approx((theirs.low, theirs.high), rel=1e-9)


@pytest.mark.parametrize("p", [0, 1, -0.1, float("nan")])
def test_a_quantile_of_no_share_is_a_value_error(p: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        intervals.t_quantile(p, 3)


@pytest.mark.parametrize("counts", [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_a_value_error(counts: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="impossible"):
        intervals.binomial_interval(*counts)


def test_one_value_has_no_interval() -> None:
    with pytest.raises(ValueError, match="two values"):
        intervals.mean_interval([14.2])
