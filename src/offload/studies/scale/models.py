"""Scaling models: fit the rate as a function of users or workers, and find where it stops rising.

Two models are fitted to log(rate), so residuals are shares: the knee (a pool whose rate rises with
N until it is saturated) and the Universal Scalability Law (USL: contention and coherency delays
slow all workers).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from offload.units import percent

KNEE, USL = "knee", "usl"
MIN_POINTS = 6  # distinct N: AICc needs 2 more than its parameters (USL: 3 and the noise)
MAX_RESIDUAL = 0.10  # a share; a model with a larger one is not reported
FLOOR = 1e-3  # accuracy of a rate, a guess: a smaller residual does not improve the AICc

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Fit:
    """A model fitted to points (N, rate in requests/s).

    `parameters` of a knee are `demand_s` (D, seconds for which a request occupies its user or
    worker) and `rate_max`; of a USL `rate_1` (lambda, the rate at N = 1), `sigma` and `kappa`. A
    parameter is None if the points do not determine it. `predicted` has the rate at each point;
    `residual` is the largest |predicted / measured - 1|. `peak` is the N at which the rate is
    highest or becomes flat; None outside the measured range, because the model does not
    extrapolate.
    """

    model: str
    parameters: Mapping[str, float | None]
    predicted: tuple[float, ...]
    residual: float
    aicc: float
    peak: float | None


@dataclass(frozen=True)
class Choice:
    """The better model, or None with the `reason` in one line."""

    fit: Fit | None
    reason: str | None = None


def choose(points: Points) -> Choice:
    """Return the model with the smaller AICc of those with residuals up to 10 %, or none.

    `points` are (N, rate) with N of 1 or more. Raise ValueError for invalid points.
    """
    if few := too_few([n for n, _ in points]):
        return Choice(None, few)
    both = [knee(points), usl(points)]
    accurate = [fit for fit in both if fit.residual <= MAX_RESIDUAL]
    best = min(accurate or both, key=lambda fit: fit.aicc)
    if not accurate:
        off = f"the better model, {best.model}, is off by {percent(best.residual)}"
        return Choice(None, f"{off} at one point, more than {percent(MAX_RESIDUAL)}")
    return Choice(best)


def too_few(numbers: Sequence[float]) -> str | None:
    """Return why these N are too few to choose a model; None if they suffice."""
    counts = len({*numbers})
    if counts >= MIN_POINTS:
        return None
    return f"{counts} different numbers: a model needs {MIN_POINTS} or more"


def knee(points: Points) -> Fit:
    """Fit X = min(N / D, Xmax), or only the line or only the plateau if its AICc is smaller.

    Raise ValueError below 5 points. Source: the asymptotic bounds of a closed system, Denning and
    Buzen 1978, The operational analysis of queueing network models.
    """
    logs = sorted((math.log(n), math.log(x)) for n, x in _validated(points, 5))
    size = len(logs)
    slopes = [x - n for n, x in logs]
    shapes = [(fmean(slopes), math.inf), (math.inf, fmean([x for _, x in logs]))]
    for split in range(1, size):  # the optimal knee is between two points or at one
        shapes.append((fmean(slopes[:split]), fmean([x for _, x in logs[split:]])))
        at = logs[split][0]
        slope = fmean([x - min(n, at) for n, x in logs])
        shapes.append((slope, slope + at))

    def score(shape: tuple[float, float]) -> float:
        rises, flat = shape
        error = sum((x - min(rises + n, flat)) ** 2 for n, x in logs)
        return aicc(error, size, sum(map(math.isfinite, shape)) + 1)

    rises, flat = min(shapes, key=score)
    parameters = {
        "demand_s": _finite_or_none(math.exp(-rises)),
        "rate_max": _finite_or_none(math.exp(flat)),
    }
    predicted = tuple(math.exp(min(rises + math.log(n), flat)) for n, _ in points)
    at = math.exp(flat - rises) if math.isfinite(flat - rises) else math.nan
    return _fit(KNEE, parameters, predicted, points, score((rises, flat)), at)


def usl(points: Points) -> Fit:
    """Fit X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)) with sigma and kappa >= 0.

    Raise ValueError below 6 points. Source: Gunther 2007, Guerrilla Capacity Planning.

    >>> points = [(n, 100 * n / (1 + 0.1 * (n - 1))) for n in (1, 2, 4, 8, 16, 32)]
    >>> round(usl(points).parameters["sigma"], 3)
    0.1
    """
    valid_points = _validated(points, MIN_POINTS)
    rows = [(1.0, n - 1, n * (n - 1)) for n, _ in valid_points]
    # N / X is linear in (1, sigma, kappa) / lambda
    a, b, c = positive_log_fit(rows, [n / x for n, x in valid_points])
    sigma, kappa = b / a, c / a
    predicted = tuple(
        n / (a + b * r + c * s) for (n, _), (_, r, s) in zip(points, rows, strict=True)
    )
    error = sum(math.log(x / p) ** 2 for (_, x), p in zip(points, predicted, strict=True))
    at = math.sqrt((1 - sigma) / kappa) if kappa > 0 and sigma < 1 else math.nan
    parameters = {"rate_1": 1 / a, "sigma": sigma, "kappa": kappa}
    return _fit(USL, parameters, predicted, points, aicc(error, len(points), 4), at)


def aicc(error: float, n: int, k: int) -> float:
    """Return Akaike's information criterion, corrected for small samples; smaller is better.

    `error` is the sum of squared residuals of log(rate); k includes the noise parameter. Raise
    ValueError unless n > k + 1. Source: Sugiura 1978; Hurvich and Tsai 1989, Regression and time
    series model selection in small samples.
    """
    if n <= k + 1:
        raise ValueError(f"AICc of {k} parameters needs more than {n} points")
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
    measured_peak = peak if min(ns) <= peak <= max(ns) else None
    return Fit(model, parameters, predicted, residual, criterion, measured_peak)


def _validated(points: Points, minimum: int) -> Points:
    if not all(1 <= n < math.inf and 0 < x < math.inf for n, x in points):
        raise ValueError("points must have N of 1 or more and rates above 0")
    if len(points) < minimum:
        raise ValueError(f"{minimum} points are needed, not {len(points)}")
    return points


def _finite_or_none(value: float) -> float | None:
    return value if 0 < value < math.inf else None


STEPS = 100  # maximum; a few are enough if the model fits
HALVINGS = 30  # maximum per step

Rows = Sequence[Sequence[float]]


def positive_log_fit(rows: Rows, values: Sequence[float]) -> tuple[float, ...]:
    """Return the coefficients >= 0 that minimise sum(log(value / (row . coefficients))^2).

    Raise ValueError unless the first column and the values are above 0 and the rest at least 0.
    Source: Gauss-Newton with halved steps (Nocedal and Wright 2006, Numerical Optimization, 10.3);
    it starts from the linear fit, each row weighted by 1 / value.
    """
    if any(row[0] <= 0 or min(row) < 0 for row in rows) or min(values) <= 0:
        raise ValueError("a logarithmic fit needs a first column and values above 0")
    best = positive_fit(_divide_rows(rows, values), [1.0] * len(values))
    assert best  # the fit of the first coefficient alone is always possible
    error = _error(rows, values, best)
    for _ in range(STEPS):
        current = [_dot(row, best) for row in rows]
        # near `current`, log(value / model) = 1 + log(value / current) - model / current
        targets = [1 + math.log(v / m) for v, m in zip(values, current, strict=True)]
        step = positive_fit(_divide_rows(rows, current), targets) or best
        for _ in range(HALVINGS):
            if (smaller := _error(rows, values, step)) < error:
                break
            step = tuple((a + b) / 2 for a, b in zip(step, best, strict=True))
        else:
            break
        best, error = step, smaller
    return best


def positive_fit(rows: Rows, values: Sequence[float]) -> tuple[float, ...] | None:
    """Return the least-squares coefficients: the first above 0, the others at least 0.

    None if no fit satisfies this. Every subset of the other coefficients is tried, which is
    practical for two or three of them. Source: Lawson and Hanson 1974, Solving Least Squares
    Problems, 23.3: the constrained optimum is the unconstrained optimum of one subset.
    """
    width = len(rows[0])
    found = []
    for size in range(width):
        for others in itertools.combinations(range(1, width), size):
            subset = (0, *others)
            solution = _solve([[row[i] for i in subset] for row in rows], values)
            if solution and solution[0] > 0 and min(solution) >= 0:
                by_index = dict(zip(subset, solution, strict=True))
                full = tuple(by_index.get(i, 0.0) for i in range(width))
                errors = [_dot(row, full) - value for row, value in zip(rows, values, strict=True)]
                found.append((_dot(errors, errors), full))
    return min(found)[1] if found else None


def _solve(rows: Rows, values: Sequence[float]) -> list[float] | None:
    """Solve the normal equations by Gauss-Jordan elimination; return None if they are singular.

    Columns are scaled to norm 1.
    """
    columns = list(zip(*rows, strict=True))
    norms = [math.hypot(*column) for column in columns]
    if min(norms) == 0:
        return None
    units = [[x / norm for x in column] for column, norm in zip(columns, norms, strict=True)]
    table = [[*(_dot(u, v) for v in units), _dot(u, values)] for u in units]
    for i in range(len(table)):
        if table[i][i] < 1e-12:  # positive semidefinite: needs no pivoting
            return None
        table[i] = [x / table[i][i] for x in table[i]]
        for j in range(len(table)):
            if j != i:
                table[j] = [x - table[j][i] * y for x, y in zip(table[j], table[i], strict=True)]
    return [row[-1] / norm for row, norm in zip(table, norms, strict=True)]


def _divide_rows(rows: Rows, by: Sequence[float]) -> list[list[float]]:
    return [[x / y for x in row] for row, y in zip(rows, by, strict=True)]


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _error(rows: Rows, values: Sequence[float], coefficients: Sequence[float]) -> float:
    return sum(
        math.log(value / _dot(row, coefficients)) ** 2
        for row, value in zip(rows, values, strict=True)
    )
