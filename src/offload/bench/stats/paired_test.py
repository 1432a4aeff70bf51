"""Paired test of two cases A and B: whether B is faster than A."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.stats import control_variate, sequential, student_t
from offload.bench.stats.control_variate import Mean

EFFECT = 0.02  # the smallest difference that matters, as a share; 0.05 with `quick`
FASTER, SLOWER, SAME, TINY, UNRESOLVED = "faster", "slower", "same", "tiny", "unresolved"
DISTURBED = "disturbed"  # the conditions were invalid: set by callers, never by this test


@dataclass(frozen=True)
class Verdict:
    """The comparison of B with A. Ratios are B over A: above 1, B is faster than A.

    `outcome` is FASTER, SLOWER, SAME, TINY, UNRESOLVED or DISTURBED. `low` and `high` are the ends
    of the confidence interval of `ratio`, and `p` is the two-sided p value of this analysis alone.
    `sd` is the standard deviation of the pairs' log-ratios, which is nearly a share; if they were
    corrected, it is the standard error of their mean times the root of `pairs`. `more_pairs`
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


def compare(
    pairs: Sequence[tuple[float, float]],
    alpha: float = sequential.NORMAL.level,
    effect: float = EFFECT,
    work_s: Sequence[tuple[float, float]] | None = None,
) -> Verdict:
    """Compare the rates (A, B) of `pairs`, in the same unit.

    `work_s` are the CPU times of fixed work during the measurements of each pair. With them, the
    ratio is corrected for the speed of the CPUs (see `control_variate`).

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
    found = control_variate.of_pairs(pairs, work_s)
    mean, half, sd = found.value, found.half_width(alpha), found.error * math.sqrt(n)
    low, high = mean - half, mean + half
    outcome = _classify(mean, low, high, math.log1p(effect))
    more = additional_pairs(sd, n, effect) if outcome == UNRESOLVED else 0
    return Verdict(
        outcome,
        math.exp(mean),
        student_t.exp(low),
        student_t.exp(high),
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
    return student_t.two_sided_p(found.value / found.error, found.freedom)
