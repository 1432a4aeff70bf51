"""Scaling: which curve the rate follows over users or workers, and where it stops to grow.

Two models, both fitted to log(rate), so that a residual is a share: the knee (a pool: its rate
rises with N until nothing is idle) and the USL (contention and coherency slow every worker down).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from offload.bench.stats import nnls

KNEE, USL = "knee", "usl"
POINTS = 6  # different N: AICc needs two more than the USL's 3 parameters and the noise
REFUSED = 0.10  # residual, as a share: no model that is off by more is shown
FLOOR = 1e-3  # a guess: no rate is known better, so no model is rewarded for following it closer

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Fit:
    """A model fitted to (N, rate in requests a second).

    `parameters` of a knee are `demand_s` (D, seconds one request keeps its user or worker busy)
    and `rate_max`; of a USL `rate_1` (lambda, the rate of one), `sigma` and `kappa`. None: the
    points do not show it. `predicted` are the rates at the points, in their order; `residual` is
    the largest |predicted / measured - 1|. `peak` is the N where the rate is largest or becomes
    flat, None when that is not between the points: what nobody measured is not claimed.
    """

    model: str
    parameters: Mapping[str, float | None]
    predicted: tuple[float, ...]
    residual: float
    aicc: float
    peak: float | None


@dataclass(frozen=True)
class Choice:
    """The fit that is worth showing, or None and in one line why there is none."""

    fit: Fit | None
    reason: str | None = None


def choose(points: Points) -> Choice:
    """Choose between knee and USL by the smaller AICc; refuse both when that one does not fit.

    `points` are (N, rate), N of 1 or more. Raise ValueError for points that cannot be.
    """
    if few := too_few([n for n, _ in points]):
        return Choice(None, few)
    best = min(knee(points), usl(points), key=lambda fit: fit.aicc)
    if best.residual > REFUSED:
        off = f"the better model, {best.model}, is off by {best.residual:.0%}"
        return Choice(None, f"{off} at one point, more than {REFUSED:.0%}")
    return Choice(best)


def too_few(numbers: Sequence[float]) -> str | None:
    """Say why so many different N have no model; None when they are enough for one."""
    counts = len({*numbers})
    fewer = f"{counts} different N: telling knee from USL takes {POINTS} or more"
    return fewer if counts < POINTS else None


def knee(points: Points) -> Fit:
    """Fit X = min(N / D, Xmax); a line or a plateau alone where the other half is not worth it.

    Raise ValueError below 5 points. Source: the asymptotic bounds of a closed system, Denning and
    Buzen 1978, The operational analysis of queueing network models.
    """
    logs = sorted((math.log(n), math.log(x)) for n, x in _checked(points, 5))
    size = len(logs)
    slopes = [x - n for n, x in logs]
    shapes = [(fmean(slopes), math.inf), (math.inf, fmean([x for _, x in logs]))]
    for split in range(1, size):  # the best knee is between two points, or at one of them
        shapes.append((fmean(slopes[:split]), fmean([x for _, x in logs[split:]])))
        at = logs[split][0]
        slope = fmean([x - min(n, at) for n, x in logs])
        shapes.append((slope, slope + at))

    def judged(shape: tuple[float, float]) -> float:
        rises, flat = shape
        error = sum((x - min(rises + n, flat)) ** 2 for n, x in logs)
        return aicc(error, size, sum(map(math.isfinite, shape)) + 1)

    rises, flat = min(shapes, key=judged)
    parameters = {"demand_s": _known(math.exp(-rises)), "rate_max": _known(math.exp(flat))}
    predicted = tuple(math.exp(min(rises + math.log(n), flat)) for n, _ in points)
    at = math.exp(flat - rises) if math.isfinite(flat - rises) else math.nan
    return _fit(KNEE, parameters, predicted, points, judged((rises, flat)), at)


def usl(points: Points) -> Fit:
    """Fit X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)) with sigma and kappa >= 0.

    Raise ValueError below 6 points. Source: Gunther 2007, Guerrilla Capacity Planning.
    """
    checked = _checked(points, POINTS)
    rows = [(1.0, n - 1, n * (n - 1)) for n, _ in checked]
    # N / X is linear in (1, sigma, kappa) / lambda
    a, b, c = nnls.positive_log_fit(rows, [n / x for n, x in checked])
    sigma, kappa = b / a, c / a
    predicted = tuple(
        n / (a + b * r + c * s) for (n, _), (_, r, s) in zip(points, rows, strict=True)
    )
    error = sum(math.log(x / p) ** 2 for (_, x), p in zip(points, predicted, strict=True))
    at = math.sqrt((1 - sigma) / kappa) if kappa > 0 and sigma < 1 else math.nan
    parameters = {"rate_1": 1 / a, "sigma": sigma, "kappa": kappa}
    return _fit(USL, parameters, predicted, points, aicc(error, len(points), 4), at)


def aicc(error: float, n: int, k: int) -> float:
    """Give Akaike's criterion, corrected for few points; the smaller of two models is better.

    `error` is the sum of squared residuals of log(rate), k counts the noise as a parameter. Raise
    ValueError unless n > k + 1. Source: Sugiura 1978; Hurvich and Tsai 1989, Regression and time
    series model selection in small samples.
    """
    if n <= k + 1:
        raise ValueError(f"{k} parameters cannot be judged from {n} points")
    return n * math.log(max(error / n, FLOOR**2)) + 2 * k + 2 * k * (k + 1) / (n - k - 1)


def _fit(
    model: str,
    parameters: Mapping[str, float | None],
    predicted: tuple[float, ...],
    points: Points,
    criterion: float,
    peak: float,
) -> Fit:
    residual = max(abs(p / x - 1) for p, (_, x) in zip(predicted, points, strict=True))
    ns = [n for n, _ in points]
    seen = peak if min(ns) <= peak <= max(ns) else None
    return Fit(model, parameters, predicted, residual, criterion, seen)


def _checked(points: Points, least: int) -> Points:
    if not all(1 <= n < math.inf and 0 < x < math.inf for n, x in points):
        raise ValueError("points are N of 1 or more and rates above 0")
    if len(points) < least:
        raise ValueError(f"{least} points are needed, not {len(points)}")
    return points


def _known(value: float) -> float | None:
    return value if 0 < value < math.inf else None
