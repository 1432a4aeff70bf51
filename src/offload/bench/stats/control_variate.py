"""Control variate: correct a mean by a second value that varies with the first by chance.

The values y of n pairs vary with x: y = mean - slope x + error. The mean of x is mostly chance. So
the mean of y + slope x has the same expected value as that of y, but less error: Lavenberg and
Welch 1981, A perspective on the use of control variables, Management Science 27:3. After few pairs
their slope is uncertain, so it has a prior distribution.

The posterior of the slope is proportional to RSS^(-(n - 1) / 2) times the prior, where RSS is the
residual sum of squares (Box and Tiao 1973, Bayesian Inference in Statistical Analysis, 2.7).

What is compared may itself change x by a small effect, which is no reason for a correction. It is
a random effect with the standard deviation EFFECT_SD. So the expected part of the mean of x that is
chance is the share error^2 / (error^2 + EFFECT_SD^2) of it, where error is its standard error; the
uncertainty of this part is added to the error of the result (the posterior of two normal
distributions: Box and Tiao, 1.4).

In simulations with slopes from 0 to 3 and 2 to 20 pairs, the 95 % intervals contained the truth in
91 to 100 % of the cases (96 % on average) with effects of 0 and 0.02, and in 62 to 100 % (92 % on
average) with one of 0.05; there least if x varies by 0.1 between pairs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.stats import student_t

# Mean and SD of the slope's prior. Measured with an earlier `speed_work`, which began with cold
# caches: 1.5 to 2.3 for servers that compute, 0 for servers that sleep
PRIOR, PRIOR_SD = 1.8, 0.5
MAX_SLOPE, STEPS = 4.0, 80  # the posterior is computed on a grid from 0 to MAX_SLOPE
EFFECT_SD = 0.02  # measured with `speed_work`: effects of -0.01 to 0.04 [60 pairs of servers]
LEAST = 1e-12  # residual sum of squares of pairs that are equal
# If the interval without x is narrower than this share of that with x, x has no effect on y
NARROWER = 0.5
# The mean of x is an effect of what is compared if it is this unlikely by chance
UNLIKELY = 0.01


@dataclass(frozen=True)
class Mean:
    """A mean with its standard error, its degrees of freedom, and the slope that was used."""

    value: float
    error: float
    freedom: float
    slope: float = 0.0

    def half_width(self, alpha: float) -> float:
        """Return the half-width of its interval at the level 1 - `alpha`."""
        return student_t.quantile(1 - alpha / 2, self.freedom) * self.error


def of_pairs(
    pairs: Sequence[tuple[float, float]], work_s: Sequence[tuple[float, float]] | None
) -> Mean:
    """Return the mean log-ratio of two or more pairs of rates, B over A.

    It is corrected by the log-ratios of `work_s`, the CPU times of fixed work during each rate.
    """
    y = [math.log(b) - math.log(a) for a, b in pairs]
    if work_s is None:
        return plain(y)
    return corrected(y, [math.log(b) - math.log(a) for a, b in work_s])


def plain(y: Sequence[float]) -> Mean:
    """Return the mean of two or more values."""
    n = len(y)
    return Mean(statistics.fmean(y), statistics.stdev(y) / math.sqrt(n), n - 1)


def corrected(y: Sequence[float], x: Sequence[float]) -> Mean:
    """Return the mean of two or more values y, corrected by the part of x that is chance.

    Return the plain mean if its interval is less than half as wide (from three values on), or if
    the mean of x is certainly not 0.
    """
    n, raw = len(y), plain(y)
    known = plain(x)
    if known.half_width(UNLIKELY) < abs(known.value):
        return raw
    chance = known.error**2 / (known.error**2 + EFFECT_SD**2)
    slope, variance = _slope(y, x)
    values = [a + slope * b for a, b in zip(y, x, strict=True)]
    learnt = 0.0 if n == 2 else max(0.0, 1 - variance / PRIOR_SD**2)  # of one degree of freedom
    freedom = n - 1 - learnt
    mean, shift = statistics.fmean(values), chance * known.value
    squares = sum((value - mean) ** 2 for value in values)
    uncertain = variance * shift**2 + slope**2 * chance * EFFECT_SD**2
    error = math.sqrt(squares / freedom / n + uncertain)
    found = Mean(raw.value + slope * shift, error, freedom, slope)
    is_narrower = raw.half_width(0.05) < NARROWER * found.half_width(0.05)
    return raw if n > 2 and is_narrower else found  # two values may be nearly equal by chance


def _slope(y: Sequence[float], x: Sequence[float]) -> tuple[float, float]:
    """Return the mean of the slope's posterior distribution, and its variance."""
    mean_y, mean_x = statistics.fmean(y), statistics.fmean(x)
    yy = sum((value - mean_y) ** 2 for value in y)
    xx = sum((value - mean_x) ** 2 for value in x)
    xy = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    slopes = [MAX_SLOPE * step / STEPS for step in range(STEPS + 1)]
    logs = [
        -(len(y) - 1) / 2 * math.log(max(LEAST, yy + 2 * slope * xy + slope**2 * xx))
        - ((slope - PRIOR) / PRIOR_SD) ** 2 / 2
        for slope in slopes
    ]
    weights = [math.exp(log - max(logs)) for log in logs]
    mean = statistics.fmean(slopes, weights)
    return mean, statistics.fmean([(slope - mean) ** 2 for slope in slopes], weights)
