"""Sample sizes of a run, and intervals: of rates, ratios and quantiles. Pure functions of numbers.

First the sequential designs: at which sample sizes a run is analysed, and at which level. A run
that is analysed repeatedly and stops at the first significant result has a higher error rate than a
single analysis. Haybittle 1971, Repeated assessment of results in clinical trials of cancer
treatment, and Peto et al. 1976 therefore stop early at a very strict level only. The last analysis,
on which most verdicts rest, then has nearly the level of a single one. If the time budget of a run
ends before the last sample size, its last analysis is at the size that it reached.

With t tests the overall error rate is 5.0 % (NORMAL), 4.6 % (QUICK) and 5.2 % for runs of QUICK
with a time budget that ends after 14 rounds [10^6 simulated runs each; test_sequential.py in
tests/bench/stats repeats them]. The level of the intervals of rates is Pocock's (1977) for analyses
at all these sizes; test_estimate.py there checks that intervals cover the rate in 95 % of runs.

The levels of the analyses of GATE add up to the error rate of a gate (Bonferroni), and half of it
is for the last analysis. This is an upper limit however the analyses depend on each other, and for
any degrees of freedom.
"""

from __future__ import annotations

import math
import statistics
import sys
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

LEVEL, EARLY = 0.040, 0.005  # two-sided alpha of the last analysis, and of each earlier one
GATE_ERROR = 0.01  # one-sided error rate of a gate, in either direction
# The first analysis is after 10 rounds. If the rate of a server is bimodal (each process is fast or
# slow by chance), the t test of fewer rounds rejects too often: of simulated gates with 10 such
# cases, all at the limit, 2.3 % were red with a first analysis after 5 rounds, and 1.2 % after 10
# [1,200 gates each].
GATE_COUNTS = (10, 20, 40, 80, 160)


@dataclass(frozen=True)
class SequentialDesign:
    """Sample sizes in ascending order, and the two-sided alpha of the analyses.

    A run stops early if its ratios are significant at `early`. `level` is that of the last analysis
    and of the printed intervals of ratios. `rate_level` is that of the intervals of rates. It is
    at most `level`, because a run stops when these intervals are narrow, even if only by chance.
    Raise ValueError for missing or unordered sample sizes, and for an invalid level.
    """

    counts: tuple[int, ...]
    rate_level: float
    level: float = LEVEL
    early: float = EARLY

    def __post_init__(self) -> None:
        if not self.counts or list(self.counts) != sorted({*self.counts}) or self.counts[0] < 2:
            raise ValueError(f"counts must be ascending from 2 or more, not {self.counts}")
        if not 0 < self.early <= self.rate_level <= self.level < 1:
            levels = f"{self.early}, {self.rate_level} and {self.level}"
            raise ValueError(f"the levels must ascend between 0 and 1, not {levels}")

    @property
    def last(self) -> int:
        """The largest sample size."""
        return self.counts[-1]

    def is_analysis(self, n: int) -> bool:
        """Return whether a sample of size `n` is analysed."""
        return n in self.counts

    def stopping_level(self, n: int) -> float:
        """Return the level at which the analysis of a sample of size `n` may end a run."""
        return self.early if n < self.last else self.level


NORMAL = SequentialDesign((5, 10, 20, 40), 0.0182)  # rounds of a block
QUICK = SequentialDesign((3, 5, 7), 0.0234)  # rounds of a block, with `quick`
GATE = SequentialDesign(  # rounds of a gate
    GATE_COUNTS,
    rate_level=GATE_ERROR,
    level=GATE_ERROR,
    early=GATE_ERROR / (len(GATE_COUNTS) - 1),
)


def sequential_design(is_quick: bool) -> SequentialDesign:
    """Return the design of a run."""
    return QUICK if is_quick else NORMAL


TARGET = 0.02  # half-width, as a share of the rate
WIDE_TARGET = 0.05  # with `quick`, and for slow cases: they complete few requests per round
SLOW = 2.0  # requests a second


@dataclass(frozen=True)
class Estimate:
    """A rate in requests/s with its confidence interval, whose coverage is at least 95 %.

    The coverage assumes that all rounds have the same distribution. If one round in ten is slower
    by 10 %, coverage is 85 % in the simulation of tests/lab/method/test_resampling.py.
    `half_width` is a share of `value`: `high` is value x (1 + half_width), and `low` is
    value / (1 + half_width). `n` counts the rounds with a known rate. `resolved`: the case needs
    no further round, because `n` is an analysis point and `half_width` is within the target.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    half_width: float | None
    resolved: bool


def target_half_width(rate: float | None, quick: bool = False) -> float:
    """Return the required half-width, as a share, for a case with `rate` requests/s."""
    return WIDE_TARGET if quick or (rate is not None and rate < SLOW) else TARGET


def estimate(
    rates: Sequence[float | None],
    design: SequentialDesign = NORMAL,
    target: float | None = None,
    quantum: float = 0.0,
) -> Estimate:
    """Estimate the geometric mean of `rates`, in requests/s, one per round; ignore None.

    `target` is the required half-width, a share; by default that of `target_half_width`. `quantum`
    is the rounding error of a rate, also a share, because only whole requests are counted; it is
    added to the half-width.
    Between two analysis points the interval has the same level, but `resolved` is False. Fewer
    than two rates have no interval. Raise ValueError for a rate that is not a number above 0 (pass
    None for a round that completed nothing) and for a negative share.

    Source: t interval of the mean of log(rate) (Student 1908) at the design's level for rates.
    """
    known = [rate for rate in rates if rate is not None]
    if not all(0 < rate < math.inf for rate in known):
        raise ValueError(f"rates must be numbers above 0 or None, not {known}")
    if not 0 <= quantum < math.inf or (target is not None and not target >= 0):
        raise ValueError(f"shares must be 0 or more, not quantum={quantum} and target={target}")
    n = len(known)
    value = statistics.geometric_mean(known) if known else None
    if value is None or n < 2:
        return Estimate(value, None, None, n, None, False)
    low, high = mean_interval([math.log(rate) for rate in known], design.rate_level)
    half_width = math.expm1((high - low) / 2) + quantum
    if target is None:
        target = target_half_width(value, quick=design == QUICK)
    resolved = design.is_analysis(n) and half_width <= target
    return Estimate(
        value, value / (1 + half_width), value * (1 + half_width), n, half_width, resolved
    )


MIN_VALUES = 5  # with fewer it is unclear which value is the outlier
LIMIT = 5.0  # MAD; about 3.4 standard deviations of normal values
FLOOR = 0.005  # smallest MAD, a share of the median (a guess): the limit is at least 2.5 %


def outliers(values: Sequence[float | None]) -> list[int]:
    """Return the indexes of the values that are more than 5 MAD away from the median.

    None is ignored, and fewer than 5 values have no outliers. The MAD, the median distance from the
    median, is assumed to be at least 0.5 % of the median. If most values are equal it would be 0,
    and every other value would be an outlier.

    Source: Hampel 1974, The influence curve and its role in robust estimation.

    >>> outliers([100.0, 101.0, 99.0, None, 100.0, 140.0])
    [5]
    """
    known = [value for value in values if value is not None]
    if len(known) < MIN_VALUES:
        return []
    median = statistics.median(known)
    mad = statistics.median(abs(value - median) for value in known)
    limit = LIMIT * max(mad, FLOOR * abs(median))
    return [i for i, x in enumerate(values) if x is not None and abs(x - median) > limit]


Interval = tuple[float, float, float]  # value, lower end, upper end


def geometric_mean_ratio(
    pairs: Sequence[tuple[float, float]], alpha: float = 0.05
) -> Interval | None:
    """Return the geometric mean of y / x over the pairs (x, y), all above 0; None below two pairs.

    The interval is the t interval of the log ratios, transformed back.

    >>> ratio, low, high = geometric_mean_ratio([(10.0, 21.0), (11.0, 22.0), (9.0, 17.1)])
    >>> round(ratio, 2), round(low, 2), round(high, 2)
    (2.0, 1.76, 2.26)
    """
    if len(pairs) < 2:
        return None
    logs = [math.log(y / x) for x, y in pairs]
    low, high = mean_interval(logs, alpha)
    return math.exp(statistics.fmean(logs)), math.exp(low), math.exp(high)


# The confidence interval of a quantile of response times, from counts in buckets per round.
#
# Requests of one round are correlated: they have the same server process and the same state of the
# machine, so an interval that treats them as independent would be too narrow. The method inverts
# the interval of a share (Woodruff 1952, Confidence intervals for medians and other position
# measures). For the 99 % quantile, the ends of its interval are the times beyond which the share of
# requests is significantly more, or less, than 1 %. The interval of this share is the exact
# binomial one for the effective number of requests, which is their number divided by the design
# effect: the factor by which the share varies more between rounds than it would with independent
# requests (Korn and Graubard 1998, Confidence intervals for proportions with small expected number
# of positive counts estimated from survey data).


Counts = Mapping[int, int]  # number of requests by bucket; later buckets are longer times


@dataclass(frozen=True)
class RequestShare:
    """The share of requests beyond a time, with the design effect of the rounds."""

    value: float
    design_effect: float


class _RequestCounts:
    """The number of requests by round and bucket; buckets have an index in ascending order."""

    def __init__(self, rounds: Sequence[Counts]) -> None:
        self.buckets = sorted({bucket for counts in rounds for bucket in counts})
        ordered = [[counts.get(bucket, 0) for bucket in self.buckets] for counts in rounds]
        self._until = [[0, *accumulate(counts)] for counts in ordered]
        self._sizes = [until[-1] for until in self._until]
        self.size = sum(self._sizes)
        self.count = len(rounds)

    def beyond(self, index: int) -> RequestShare:
        """Return the share of requests in the buckets after `index`; for -1, of all requests."""
        each = [until[-1] - until[index + 1] for until in self._until]
        share = sum(each) / self.size
        if share in (0, 1):
            return RequestShare(share, 1.0)
        pairs = zip(each, self._sizes, strict=True)
        squares = sum((beyond - share * size) ** 2 for beyond, size in pairs)
        variance = squares * self.count / (self.count - 1) / self.size**2
        return RequestShare(share, max(1.0, variance / (share * (1 - share) / self.size)))

    def effect_near(self, limit: float) -> float:
        """Return the design effect of a share near `limit` or near twice `limit`: the larger one.

        It is also used for a share of 0, which has no design effect of its own.
        """
        indexes = range(len(self.buckets))
        reached = (
            bisect_left(indexes, True, key=lambda index: self.beyond(index).value < share)
            for share in (limit, 2 * limit)
        )
        return max(self.beyond(max(0, index - 1)).design_effect for index in reached)

    def low(self, index: int, level: float, effect: float) -> float:
        """Return the lower end of the interval of the share of requests after `index`."""
        hits, trials = self._effective(index, level, effect)
        return beta_quantile(level, hits, trials - hits + 1) if hits > 0 else 0.0

    def high(self, index: int, level: float, effect: float) -> float:
        """Return the upper end of the interval of the share of requests after `index`."""
        hits, trials = self._effective(index, level, effect)
        return beta_quantile(1 - level, hits + 1, trials - hits) if hits < trials else 1.0

    def _effective(self, index: int, level: float, effect: float) -> tuple[float, float]:
        """Return the effective number of requests after `index`, and that of all requests."""
        share = self.beyond(index)
        few_rounds = t_quantile(level, self.count - 1) / normal_quantile(level)
        trials = self.size / (max(effect, share.design_effect) * few_rounds**2)
        return share.value * trials, trials


def quantile_buckets(
    rounds: Sequence[Counts], share: float, level: float
) -> tuple[int | None, int | None]:
    """Return two buckets: the quantile is after the end of the first, but not of the second.

    Each of the two statements has the error rate `level`. A bucket is None if the counts do not
    determine it.
    """
    if len(rounds) < 2:  # one round does not show how much rounds differ
        return None, None
    counts, limit = _RequestCounts(rounds), 1 - share
    effect = counts.effect_near(limit)
    indexes = range(len(counts.buckets))
    first = bisect_left(
        indexes, True, key=lambda index: counts.low(index - 1, level, effect) <= limit
    )
    last = bisect_left(indexes, True, key=lambda index: counts.high(index, level, effect) <= limit)
    return (
        counts.buckets[first - 1] - 1 if first > 0 else None,
        counts.buckets[last] if last < len(indexes) else None,
    )


SMALLEST = 1e-300  # replaces a denominator of zero, as Lentz's method requires
MOST_TERMS = 10_000  # at most; the continued fraction needs about sqrt(max(a, b))


def normal_quantile(p: float) -> float:
    """Return z with P(Z <= z) = p for the standard normal; raise ValueError unless 0 < p < 1."""
    _check_share(p)
    return statistics.NormalDist().inv_cdf(p)


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """Return t with P(T <= t) = p at `df` > 0 degrees of freedom; raise ValueError unless 0<p<1.

    Source: T^2 = df (1 - x) / x with x of Beta(df/2, 1/2) (Abramowitz and Stegun 1964, Handbook
    of Mathematical Functions, 26.7.1).
    """
    _check_share(p)
    if p > 0.5:
        return -t_quantile(1 - p, df)
    x = beta_quantile(2 * p, df / 2, 0.5)
    return -math.sqrt(df * (1 - x) / x)


def two_sided_p(t: float, df: float) -> float:
    """Return P(|T| >= |t|) at `df` > 0 degrees of freedom; 0 for an infinite t."""
    return 0.0 if math.isinf(t) else beta_cdf(df / (df + t * t), df / 2, 0.5)


def exp_or_infinity(value: float) -> float:
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
    half = t_quantile(1 - alpha / 2, len(values) - 1) * error
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
    for m in range(1, MOST_TERMS):
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
    return value if abs(value) > SMALLEST else SMALLEST


def _check_share(p: float) -> None:
    if not 0 < p < 1:
        raise ValueError(f"a quantile needs a probability between 0 and 1, not {p}")
