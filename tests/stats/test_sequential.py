"""The levels of the analyses are those that keep the overall error rate at 5 %."""

from __future__ import annotations

import itertools

import pytest

from offload.bench.stats import sequential
from offload.bench.stats.sequential import SequentialDesign
from tests.stats.oracle import np, optimize, stats


def grid(edge: float) -> tuple[np.ndarray, np.ndarray]:
    points, step = np.linspace(-edge, edge, 401, retstep=True)
    return points, np.array([1, *[4, 2] * 199, 4, 1]) * step / 3  # Simpson's weights


def overall(counts: tuple[int, ...], level: float) -> float:
    """Integrate the sum of n normal values from look to look over what has not stopped."""
    z = stats.norm.ppf(1 - level / 2)
    at, weights = grid(z * counts[0] ** 0.5)
    density = stats.norm.pdf(at, scale=counts[0] ** 0.5)
    for before, after in itertools.pairwise(counts):
        there, next_weights = grid(z * after**0.5)
        step = stats.norm.pdf(there[:, None] - at, scale=(after - before) ** 0.5)
        density, at, weights = step @ (density * weights), there, next_weights
    return 1 - density @ weights


def solve(counts: tuple[int, ...]) -> float:
    return optimize.brentq(lambda level: overall(counts, level) - sequential.OVERALL, 0.005, 0.05)


def test_the_level_of_unequal_steps_keeps_all_analyses_at_5_percent() -> None:
    assert sequential.QUICK.level == pytest.approx(solve(sequential.QUICK.counts), abs=5e-5)


def test_the_level_of_normal_runs_is_pococks_for_four_equal_steps() -> None:
    assert sequential.NORMAL.level == pytest.approx(solve((1, 2, 3, 4)), abs=5e-5)
    assert overall(sequential.NORMAL.counts, sequential.NORMAL.level) < 0.06  # its steps double


@pytest.mark.parametrize(("equal", "published"), [(2, 0.0294), (3, 0.0221), (5, 0.0158)])
def test_the_integration_gives_pococks_published_levels(equal: int, published: float) -> None:
    assert solve(tuple(range(1, equal + 1))) == pytest.approx(published, abs=5e-5)


@pytest.mark.parametrize("design", [sequential.NORMAL, sequential.QUICK])
def test_t_at_every_look_errs_in_less_than_6_and_a_half_percent(design: SequentialDesign) -> None:
    values = np.random.default_rng(5).standard_normal((100_000, design.last))
    wrong = np.zeros(len(values), bool)
    for n in design.counts:
        t = values[:, :n].mean(1) / values[:, :n].std(1, ddof=1) * n**0.5
        wrong |= abs(t) > stats.t.ppf(1 - design.level / 2, n - 1)
    assert 0.045 < wrong.mean() < 0.065


def test_only_the_counts_of_a_schedule_are_looks() -> None:
    assert [n for n in range(30) if sequential.QUICK.is_analysis(n)] == [3, 5, 7]


def test_nothing_is_added_after_the_last_look() -> None:
    assert [sequential.design(is_quick).last for is_quick in (False, True)] == [40, 7]


@pytest.mark.parametrize("counts", [(), (5, 5), (7, 5), (1, 5)])
def test_a_schedule_that_does_not_rise_is_a_value_error(counts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="ascending"):
        SequentialDesign(counts, 0.02)


@pytest.mark.parametrize("level", [0, 1, float("nan")])
def test_a_level_of_no_share_is_a_value_error(level: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        SequentialDesign((5, 10), level)
