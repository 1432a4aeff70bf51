"""Fits with non-negative coefficients agree with scipy's."""

from __future__ import annotations

import random

import pytest

from offload.studies.scale.models import positive_fit, positive_log_fit
from tests.bench.stats.oracle import np, optimize

NS = [1, 2, 4, 8, 12, 16, 24, 32]
ROWS = [(1.0, n - 1.0, n * (n - 1.0)) for n in NS]


@pytest.mark.parametrize("seed", range(20))
def test_a_fit_is_scipys(seed: int) -> None:
    rng = random.Random(seed)
    values = [rng.uniform(0.5, 2) * n for n in NS]
    theirs, _ = optimize.nnls(np.array(ROWS), np.array(values))
    ours = positive_fit(ROWS, values)
    assert ours == pytest.approx(theirs, abs=1e-8) or theirs[0] == 0  # ours keeps the first


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("seed", range(10))
def test_a_logarithmic_fit_is_as_good_as_scipys(seed: int, noise: float) -> None:
    rng = random.Random(seed)
    values = [(1 + 0.05 * r + 0.002 * s) * rng.lognormvariate(0, noise) for _, r, s in ROWS]

    def off(c: np.ndarray) -> np.ndarray:
        return np.log(values) - np.log(np.array(ROWS) @ c)

    theirs = optimize.least_squares(off, [1, 0.1, 0.01], bounds=([1e-9, 0, 0], np.inf), xtol=1e-12)
    ours = off(np.array(positive_log_fit(ROWS, values)))
    assert (ours**2).sum() <= 2 * theirs.cost * (1 + 1e-6)


def test_no_coefficient_above_0_comes_near_negative_values() -> None:
    assert positive_fit([(1.0, 1.0), (1.0, 2.0)], [-1.0, -2.0]) is None


def test_equal_columns_are_not_both_used() -> None:
    assert positive_fit([(1.0, 1.0), (1.0, 1.0)], [3.0, 3.0]) == pytest.approx((3.0, 0.0))


@pytest.mark.parametrize(("row", "value"), [((0.0, 1.0), 1.0), ((1.0, -1.0), 1.0), ((1.0, 1.0), 0)])
def test_a_logarithm_below_0_is_a_value_error(row: tuple[float, float], value: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        positive_log_fit([row], [value])
