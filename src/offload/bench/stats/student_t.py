"""Quantiles and confidence intervals: Student's t, normal and exact binomial.

`alpha` is always two-sided: the share of intervals that miss the truth, 0.05 for 95 %.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from functools import lru_cache

TINY = 1e-300  # replaces a denominator of zero, as Lentz's method requires
STEPS = 10_000  # at most; the continued fraction needs about sqrt(max(a, b))


def normal_quantile(p: float) -> float:
    """Return z with P(Z <= z) = p for the standard normal; raise ValueError unless 0 < p < 1."""
    _check_share(p)
    return statistics.NormalDist().inv_cdf(p)


@lru_cache(maxsize=4096)
def quantile(p: float, df: float) -> float:
    """Return t with P(T <= t) = p at `df` > 0 degrees of freedom; raise ValueError unless 0<p<1.

    Source: T^2 = df (1 - x) / x with x of Beta(df/2, 1/2) (Abramowitz and Stegun 1964, Handbook
    of Mathematical Functions, 26.7.1).
    """
    _check_share(p)
    if p > 0.5:
        return -quantile(1 - p, df)
    x = beta_quantile(2 * p, df / 2, 0.5)
    return -math.sqrt(df * (1 - x) / x)


def two_sided_p(t: float, df: float) -> float:
    """Return P(|T| >= |t|) at `df` > 0 degrees of freedom; 0 for an infinite t."""
    return 0.0 if math.isinf(t) else beta_cdf(df / (df + t * t), df / 2, 0.5)


def exp(value: float) -> float:
    """Return e^value, or infinity for an overflow: intervals of two values may be that wide."""
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def mean_interval(values: Sequence[float], alpha: float = 0.05) -> tuple[float, float]:
    """Return the lower and upper end of the t interval of a mean, in the unit of the values.

    Raise ValueError below two values. Source: Student 1908, The probable error of a mean.

    >>> low, high = mean_interval([98.0, 101.0, 104.0, 97.0, 100.0])
    >>> round(low, 1), round(high, 1)
    (96.6, 103.4)
    """
    if len(values) < 2:
        raise ValueError(f"an interval needs at least two values, not {len(values)}")
    mean = statistics.fmean(values)
    error = statistics.stdev(values, mean) / math.sqrt(len(values))
    half = quantile(1 - alpha / 2, len(values) - 1) * error
    return mean - half, mean + half


def binomial_interval(successes: int, trials: int, alpha: float = 0.05) -> tuple[float, float]:
    """Return the exact interval of a share, from 0 to 1; raise ValueError for impossible counts.

    Source: Clopper and Pearson 1934, The use of confidence or fiducial limits illustrated in the
    case of the binomial.

    >>> low, high = binomial_interval(96, 100)
    >>> round(low, 3), round(high, 3)
    (0.901, 0.989)
    """
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"{successes} successes in {trials} trials are impossible")
    k, n = successes, trials
    low = 0.0 if k == 0 else beta_quantile(alpha / 2, k, n - k + 1)
    high = 1.0 if k == n else beta_quantile(1 - alpha / 2, k + 1, n - k)
    return low, high


def median_interval(values: Sequence[float], alpha: float = 0.05) -> tuple[float, float] | None:
    """Return the exact interval of a median, in the unit of the values; None below six values.

    Its ends are two of the values: the largest rank k from the bottom and from the top for which
    P(fewer than k of n values are below the median) is at most alpha / 2. Source: Thompson 1936,
    On confidence ranges for the median.

    >>> median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
    (2.0, 8.0)
    """
    known, n = sorted(values), len(values)
    rank, below = 0, 0.5**n
    while below <= alpha / 2:
        rank += 1
        below += math.comb(n, rank) * 0.5**n
    return (known[rank - 1], known[n - rank]) if rank else None


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b) for a, b > 0 and 0 <= x <= 1.

    Source: continued fraction 8.17.22 of the NIST Digital Library of Mathematical Functions.
    Raise ValueError outside that domain.
    """
    if not (0 <= x <= 1 and a > 0 and b > 0):
        raise ValueError(f"I_x(a, b) is not defined for x={x}, a={a}, b={b}")
    if x in (0, 1):
        return float(x)
    if x > (a + 1) / (a + b + 2):  # the fraction converges slowly here, but fast for 1 - x
        return 1 - beta_cdf(1 - x, b, a)
    return _front(x, a, b) * _continued_fraction(x, a, b) / a


def beta_quantile(p: float, a: float, b: float) -> float:
    """Return x with I_x(a, b) = p, by Newton's method, and by bisection where it leaves the bounds.

    It ends at adjacent floats, or when a step no longer changes x.
    """
    low, high, x = 0.0, 1.0, 0.5
    while low < x < high:
        difference = beta_cdf(x, a, b) - p
        if difference < 0:
            low = x
        else:
            high = x
        slope = _front(x, a, b) / (x * (1 - x))
        following = x - difference / slope if slope > 0 else math.inf
        if abs(following - x) <= sys.float_info.epsilon * x:
            return following
        x = following if low < following < high else (low + high) / 2
    return high


def _front(x: float, a: float, b: float) -> float:
    """Return x^a (1 - x)^b / B(a, b), which is x (1 - x) times the density."""
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    return math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Evaluate the continued fraction of I_x(a, b).

    Source: Lentz 1976, Generating Bessel functions in Mie scattering calculations.
    """
    c, d = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _not_zero(1 + term * d)
            c = _not_zero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            return value
    raise ArithmeticError(f"I_x(a, b) did not converge for x={x}, a={a}, b={b}")


def _not_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY


def _check_share(p: float) -> None:
    if not 0 < p < 1:
        raise ValueError(f"a quantile needs a probability between 0 and 1, not {p}")
