"""Non-negative least squares (NNLS) for two or three coefficients."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

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
