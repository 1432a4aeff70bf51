"""Tests of two cases A and B: whether B is faster, lost more than a margin, or is as was published.

Pure functions of numbers.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from offload.engine import intervals

EFFECT = 0.02  # the smallest difference that matters, as a share; 0.05 with `quick`
FASTER, SLOWER, SAME, TINY, UNRESOLVED = "faster", "slower", "same", "tiny", "unresolved"
DISTURBED = "disturbed"  # the conditions were invalid: set by callers, never by this test


@dataclass(frozen=True)
class Verdict:
    """The comparison of B with A. Ratios are B over A: above 1, B is faster than A.

    `outcome` is FASTER, SLOWER, SAME, TINY, UNRESOLVED or DISTURBED. `low` and `high` are the ends
    of the confidence interval of `ratio`, and `p` is the two-sided p value of this analysis alone.
    `sd` is the standard deviation of the pairs' log-ratios, which is nearly a share. `more_pairs`
    estimates how many further pairs resolve the verdict: at least 1 if unresolved, else 0. With
    fewer than two pairs the fields that need two are None.
    """

    outcome: str
    ratio: float | None
    low: float | None
    high: float | None
    pairs: int
    more_pairs: int | None
    p: float | None
    sd: float | None = None


def compare_pairs(
    pairs: Sequence[tuple[float, float]],
    alpha: float = intervals.NORMAL.level,
    effect: float = EFFECT,
) -> Verdict:
    """Compare the rates (A, B) of `pairs`, in the same unit.

    A run may stop by this comparison only at the counts of a sequential design, with its stopping
    level as `alpha`: more analyses at the same level raise the error rate.
    Ratios from 1 / (1 + effect) to 1 + effect are negligible; `effect` is a share. The outcome is
    the first that applies:
    faster, slower: the interval excludes 1, and the ratio is not negligible;
    same: the whole interval is negligible (even if it excludes 1);
    tiny: the interval excludes 1, but the ratio is negligible;
    unresolved: none of these.
    Raise ValueError for rates that are not numbers above 0 and for an invalid alpha or effect.

    Source: paired t test of the log-ratios (Student 1908); "same" is the two one-sided tests of
    Schuirmann 1987.
    """
    if not all(0 < rate < math.inf for pair in pairs for rate in pair):
        raise ValueError("a pair must be two rates above 0: omit pairs with a missing rate")
    if not (0 < alpha < 1 and effect > 0):
        raise ValueError(f"alpha and effect must be shares above 0, not {alpha} and {effect}")
    n = len(pairs)
    if n < 2:
        ratio = pairs[0][1] / pairs[0][0] if pairs else None
        return Verdict(UNRESOLVED, ratio, None, None, n, None, None)
    found = mean_log_ratio(pairs)
    mean, half, sd = found.value, found.half_width(alpha), found.error * math.sqrt(n)
    low, high = mean - half, mean + half
    outcome = _classify(mean, low, high, math.log1p(effect))
    more = additional_pairs(sd, n, effect) if outcome == UNRESOLVED else 0
    return Verdict(
        outcome,
        math.exp(mean),
        intervals.exp_or_infinity(low),
        intervals.exp_or_infinity(high),
        n,
        more,
        _p_value(found),
        sd,
    )


def additional_pairs(sd: float, done: int, effect: float = EFFECT) -> int:
    """Return how many pairs, in addition to `done` pairs, would resolve a verdict; at least 1.

    N = (2.1 sd / effect)^2 in total, with `sd` and `effect` as shares: with N pairs the half-width
    of the interval, about 2.1 sd / sqrt(N) (Student 1908), equals the effect.
    """
    return max(1, math.ceil((2.1 * sd / effect) ** 2) - done)


def _classify(mean: float, low: float, high: float, effect: float) -> str:
    """Return the outcome. Arguments are logarithms, so exchanging A and B changes only signs."""
    excludes_1 = low > 0 or high < 0
    if excludes_1 and abs(mean) > effect:
        return FASTER if mean > 0 else SLOWER
    if -effect < low and high < effect:
        return SAME
    return TINY if excludes_1 else UNRESOLVED


def _p_value(found: Mean) -> float:
    if found.error == 0:  # all pairs have the same ratio
        return 0.0 if found.value else 1.0
    return intervals.two_sided_p(found.value / found.error, found.freedom)


@dataclass(frozen=True)
class Mean:
    """A mean with its standard error and its degrees of freedom."""

    value: float
    error: float
    freedom: int

    def half_width(self, alpha: float) -> float:
        """Return the half-width of its interval at the level 1 - `alpha`."""
        return intervals.t_quantile(1 - alpha / 2, self.freedom) * self.error


def mean_log_ratio(pairs: Sequence[tuple[float, float]]) -> Mean:
    """Return the mean log-ratio of two or more pairs of rates, B over A."""
    logs, n = [math.log(b) - math.log(a) for a, b in pairs], len(pairs)
    return Mean(statistics.fmean(logs), statistics.stdev(logs) / math.sqrt(n), n - 1)


# Non-inferiority test: whether a rate lost more than a margin against its baseline.
#
# The baseline is A, the new rate B, and a ratio is B over A. With a margin of 0.05, B may lose 5 %.
# Two one-sided t tests compare the log ratio with the margin: one can show that the loss is larger
# than the margin, the other that it is smaller. If neither does, the result is undecided: a wide
# interval never passes.
#
# Source: Blackwelder 1982, Proving the null hypothesis in clinical trials. The t tests are those of
# Student 1908 and, for runs at different times, of Welch 1947.


LOSS, NO_LOSS, UNDECIDED = "loss", "no loss", "undecided"
CLOSE = 1e-9  # log ratio: a smaller distance from the margin counts as 0
POWER = 0.95  # probability of a decision after the number of values that `additional` returns


@dataclass(frozen=True)
class LogRatio:
    """An estimate of log(B / A): its mean, standard error, degrees of freedom and values."""

    mean: float
    error: float
    df: float
    count: int

    @property
    def ratio(self) -> float:
        """B over A."""
        return math.exp(self.mean)

    def low(self, level: float) -> float:
        """Return the lower end of the ratio's interval, with the one-sided error rate `level`."""
        return intervals.exp_or_infinity(
            self.mean + intervals.t_quantile(level, self.df) * self.error
        )

    def high(self, level: float) -> float:
        """Return the upper end of the ratio's interval, with the one-sided error rate `level`."""
        return intervals.exp_or_infinity(
            self.mean - intervals.t_quantile(level, self.df) * self.error
        )


def paired_ratio(pairs: Sequence[tuple[float, float]]) -> LogRatio | None:
    """Return the log ratio of rates (A, B) that were measured together; None below two pairs."""
    if len(pairs) < 2:
        return None
    found = mean_log_ratio(pairs)
    return LogRatio(found.value, found.error, found.freedom, len(pairs))


def unpaired_ratio(one: Sequence[float], other: Sequence[float]) -> LogRatio | None:
    """Return the log ratio of rates A and B, measured at different times; None below two each."""
    if min(len(one), len(other)) < 2:
        return None
    a, b = ([math.log(rate) for rate in rates] for rates in (one, other))
    parts = [statistics.variance(logs) / len(logs) for logs in (a, b)]
    error = math.sqrt(sum(parts))
    shares = [part**2 / (len(logs) - 1) for part, logs in zip(parts, (a, b), strict=True)]
    df = sum(parts) ** 2 / sum(shares) if error else min(len(a), len(b)) - 1
    return LogRatio(statistics.fmean(b) - statistics.fmean(a), error, df, min(len(a), len(b)))


def p_of_loss(found: LogRatio, margin: float, slack: float = 0.0) -> float:
    """Return the one-sided p value of "the loss is at most `margin`": small for a larger loss.

    `slack`, a share, is a possible error of the ratio in addition to its standard error.
    """
    excess = found.mean + math.log1p(slack) - math.log1p(-margin)
    if found.error == 0:
        return 0.0 if excess < 0 else 1.0
    two_sided = intervals.two_sided_p(excess / found.error, found.df)
    return two_sided / 2 if excess < 0 else 1 - two_sided / 2


def classify_loss(low: float, high: float, margin: float) -> str:
    """Return LOSS or NO_LOSS if the whole interval of a ratio is on one side, else UNDECIDED."""
    if high < 1 - margin:
        return LOSS
    return NO_LOSS if low > 1 - margin else UNDECIDED


def additional_values(found: LogRatio, margin: float, level: float) -> int | None:
    """Return how many further values decide the test with a probability of 95 %.

    None if the ratio equals the margin, because then no number of values is sufficient.

    N = ((z + 1.64) s / d)^2 in total: s is the standard deviation of the log ratios, d the distance
    of the ratio from the margin, both as logarithms, and z the normal quantile of the test's level.
    """
    distance = abs(found.mean - math.log1p(-margin))
    if distance < CLOSE:
        return None
    sd = found.error * math.sqrt(found.count)
    z = intervals.normal_quantile(1 - level) + intervals.normal_quantile(POWER)
    return max(1, math.ceil((z * sd / distance) ** 2) - found.count)


# Holm's correction for multiple testing.
#
# The family-wise error rate is the probability that at least one true hypothesis is rejected.
# Source: Holm 1979, A simple sequentially rejective multiple test procedure.


def holm_levels(p_values: Sequence[float], alpha: float) -> list[float]:
    """Return the level at which each hypothesis is tested, in their order.

    A hypothesis is rejected if its p value is at most its level. The family-wise error rate is
    `alpha`.

    >>> holm_levels([0.04, 0.001, 0.03], 0.06)
    [0.06, 0.02, 0.03]
    """
    found = [0.0] * len(p_values)
    left, stopped = len(p_values), False
    for index in sorted(range(len(p_values)), key=p_values.__getitem__):
        found[index] = alpha / left
        stopped = stopped or p_values[index] > found[index]
        left -= not stopped
    return found


HOLDS, IN_PART, DOES_NOT = "holds", "holds in part", "does not hold"
NOT_COMPARABLE = "not comparable"
TOLERANCE = 1.1  # factor by which intervals are widened; a smaller ratio counts as no difference


def classify_replication(claimed: float | None, alike: bool, low: float, high: float) -> str:
    """Return the verdict on a `claimed` ratio (None: any ratio above 1) for a measured interval.

    holds: the interval is above 1 and, multiplied by TOLERANCE, reaches the claimed ratio; or it
    contains 1, is narrower than TOLERANCE^2, and contains the claimed ratio if widened by
    TOLERANCE;
    holds in part: the direction is the same, but the difference is smaller;
    does not hold: the direction is opposite, or the interval contains 1 but no ratio that is closer
    to the claimed one than to 1.
    With `alike` the claim is that there is no difference.
    """
    if alike:
        return _alike(claimed or 1.0, low, high)
    if claimed is not None and claimed < 1:
        claimed, low, high = 1 / claimed, 1 / high, 1 / low
    if claimed is None:
        claimed = 1.0
    is_narrow = high / low <= TOLERANCE**2
    if low > 1:
        return HOLDS if high * TOLERANCE >= claimed else IN_PART
    if is_narrow and low / TOLERANCE <= claimed <= high * TOLERANCE and claimed > 1:
        return HOLDS
    if high < 1 or high <= max(TOLERANCE, claimed**0.5):
        return DOES_NOT
    return UNRESOLVED


def explain_replication(
    verdict: str, claimed: float | None, alike: bool, low: float, high: float
) -> str:
    """Return the reason for the `verdict` of `classify_replication`, in a few words."""
    if alike:
        known = {HOLDS: "no difference that matters", DOES_NOT: "there is a difference"}
        return known.get(verdict, "more rounds are needed")
    if verdict == HOLDS:
        is_more = claimed is not None and (
            low / TOLERANCE > claimed > 1 or high * TOLERANCE < claimed < 1
        )
        as_claimed = "larger, as claimed" if claimed is None else "as published"
        return "the difference is larger here" if is_more else as_claimed
    return {
        IN_PART: "the same direction, a smaller difference",
        DOES_NOT: "the other direction" if high < 1 or low > 1 else "no difference here",
    }.get(verdict, "the interval is too wide")


def _alike(claimed: float, low: float, high: float) -> str:
    if high / low <= TOLERANCE**2 and (
        low / TOLERANCE <= claimed <= high * TOLERANCE
        or (low >= 1 / TOLERANCE and high <= TOLERANCE)
    ):
        return HOLDS
    return DOES_NOT if low > TOLERANCE or high < 1 / TOLERANCE else UNRESOLVED
