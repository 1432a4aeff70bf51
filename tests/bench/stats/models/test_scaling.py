"""A pool fits a knee, contention fits a USL curve, and random data fits neither."""

from __future__ import annotations

import math
import random

import pytest

from offload.studies.scale.models import USL, aicc, choose, knee, usl
from tests.bench.stats.oracle import np, optimize

WORKERS = [1, 2, 4, 6, 8, 10, 12, 16]
POOL = [(n, min(n / 0.0503, 25 / 0.126)) for n in WORKERS]  # 10 workers are as good as 16


def curve(n: float, rate_1: float = 120, sigma: float = 0.04, kappa: float = 0.003) -> float:
    return rate_1 * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def noisy(points: list[tuple[float, float]], seed: int, sd: float = 0.01) -> list:
    rng = random.Random(seed)
    return [(n, x * math.exp(rng.gauss(0, sd))) for n, x in points]


CURVE = [(n, curve(n)) for n in [*WORKERS, 24, 32]]


def test_a_usl_curve_gives_its_parameters_back() -> None:
    fit = usl(CURVE)
    expected = {"rate_1": 120, "sigma": 0.04, "kappa": 0.003}
    assert fit.parameters == pytest.approx(expected, rel=1e-6)
    assert (fit.residual, fit.peak) == pytest.approx((0, math.sqrt(0.96 / 0.003)), abs=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_a_noisy_usl_curve_is_found_with_its_peak(seed: int) -> None:
    fit = choose(noisy(CURVE, seed)).fit
    assert fit.model == "usl"
    assert fit.peak == pytest.approx(17.9, rel=0.08)
    assert fit.parameters["rate_1"] == pytest.approx(120, rel=0.03)


@pytest.mark.parametrize("seed", range(10))
def test_the_usl_fit_is_scipys(seed: int) -> None:
    points = noisy(CURVE, seed, 0.03)
    n, x = np.array(points, float).T

    def off(p: np.ndarray) -> np.ndarray:
        return np.log(x) - np.log(curve(n, *p))

    theirs = optimize.least_squares(off, [100, 0.1, 0.01], bounds=(0, np.inf), x_scale=[1e2, 1, 1])
    ours = off(np.array(list(usl(points).parameters.values())))
    assert (ours**2).sum() <= 2 * theirs.cost * (1 + 1e-5)


@pytest.mark.parametrize("seed", range(10))
def test_a_sleep_pool_has_a_knee_and_no_false_peak(seed: int) -> None:
    fit = choose(noisy(POOL, seed)).fit
    assert fit.model == "knee"
    assert fit.parameters == pytest.approx({"demand_s": 0.0503, "rate_max": 198.4}, rel=0.02)
    assert fit.peak == pytest.approx(9.98, rel=0.03)


@pytest.mark.parametrize("seed", range(10))
def test_the_knee_is_at_least_as_good_as_scipys(seed: int) -> None:
    points = noisy(POOL, seed, 0.05)
    logs = np.log(points)

    def error(p: np.ndarray) -> float:
        return float(((logs[:, 1] - np.minimum(logs[:, 0] - p[0], p[1])) ** 2).sum())

    grid = (slice(-3.2, -2.8, 0.01), slice(5.1, 5.5, 0.01))
    best = optimize.brute(error, grid, finish=optimize.fmin)
    found = np.log([knee(points).parameters[name] for name in ("demand_s", "rate_max")])
    assert error(found) <= error(best) + 1e-9


def test_the_usl_does_not_fit_a_sleep_pool() -> None:
    assert usl([(n, min(n, 4) / 0.0503) for n in (1, 2, 3, 4, 8, 25)]).residual > 0.1


@pytest.mark.parametrize("seed", range(10))
def test_a_line_has_no_plateau(seed: int) -> None:
    fit = choose(noisy([(n, n / 0.0503) for n in WORKERS], seed)).fit
    assert (fit.model, fit.parameters["rate_max"], fit.peak) == ("knee", None, None)


def test_a_plateau_alone_has_no_demand() -> None:
    fit = choose(noisy([(n, 79.5) for n in (10, 25, 50, 75, 100, 150)], 3)).fit
    assert (fit.parameters["demand_s"], fit.peak) == (None, None)
    assert fit.parameters["rate_max"] == pytest.approx(79.5, rel=0.02)


def test_a_peak_beyond_the_points_is_not_reported() -> None:
    fit = usl([point for point in CURVE if point[0] <= 16])
    assert fit.parameters["kappa"] == pytest.approx(0.003)
    assert fit.peak is None


def test_rubbish_is_refused_with_the_reason() -> None:
    choice = choose(list(zip(WORKERS, [20, 90, 30, 200, 10, 80, 300, 40], strict=True)))
    assert choice.fit is None
    assert "is off by" in choice.reason


def test_five_different_counts_are_too_few() -> None:
    choice = choose([*POOL[:5], *POOL[:5]])
    assert (choice.fit, choice.reason.split(":")[0]) == (None, "5 different numbers")


def test_predictions_are_in_the_order_of_the_points() -> None:
    backwards = POOL[::-1]
    for fit in (knee(backwards), usl(backwards)):
        off = [abs(p / x - 1) for p, (_, x) in zip(fit.predicted, backwards, strict=True)]
        assert fit.residual == max(off)
    assert knee(backwards).predicted == pytest.approx([x for _, x in backwards])


def test_aicc_is_hurvich_and_tsais() -> None:
    n, k, error = 10, 4, 0.02
    aic = n * math.log(error / n) + 2 * k
    assert aicc(error, n, k) == pytest.approx(aic + 2 * k * (k + 1) / (n - k - 1))


def test_aicc_needs_more_points_than_parameters_and_one() -> None:
    with pytest.raises(ValueError, match="5 points"):
        aicc(0.1, 5, 4)


@pytest.mark.parametrize("point", [(0, 10), (1, 0), (1, -5), (1, math.nan), (math.inf, 1)])
def test_an_impossible_point_is_a_value_error(point: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="points must"):
        choose([*POOL, point])


def test_an_inaccurate_model_with_a_smaller_aicc_does_not_hide_an_accurate_one() -> None:
    """With six points, AICc prefers a flat line that is 53 % off to a USL that is 4 % off."""
    rates = (1840.0, 2583.0, 2873.0, 3296.0, 3333.0, 3363.0)
    points = [*zip((1.0, 2.0, 4.0, 8.0, 16.0, 32.0), rates, strict=True)]
    assert knee(points).aicc < usl(points).aicc
    found = choose(points).fit
    assert found is not None
    assert (found.model, found.residual < 0.05) == (USL, True)
