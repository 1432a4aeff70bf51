"""Paired test of two cases A and B: whether B is faster than A."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from offload.bench.stats import sequential, student_t

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


def compare(
    pairs: Sequence[tuple[float, float]],
    alpha: float = sequential.NORMAL.level,
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
    n, logs = len(pairs), [math.log(b) - math.log(a) for a, b in pairs]
    if n < 2:
        ratio = math.exp(logs[0]) if logs else None
        return Verdict(UNRESOLVED, ratio, None, None, n, None, None)
    mean, sd = statistics.fmean(logs), statistics.stdev(logs)
    low, high = student_t.mean_interval(logs, alpha)
    outcome = _classify(mean, low, high, math.log1p(effect))
    more = additional_pairs(sd, n, effect) if outcome == UNRESOLVED else 0
    p = _p_value(mean, sd, n)
    return Verdict(outcome, math.exp(mean), math.exp(low), math.exp(high), n, more, p, sd)


def additional_pairs(sd: float, done: int, effect: float = EFFECT) -> int:
    """Return how many pairs, in addition to `done` pairs, would resolve a verdict; at least 1.

    N = (2.1 sd / effect)^2 in total, with `sd` and `effect` as shares: with N pairs the half-width
    of the interval, about 2.1 sd / sqrt(N) (Student 1908), equals the effect.
    """
    return max(1, math.ceil((2.1 * sd / effect) ** 2) - done)


def holm(p_values: Sequence[float], alpha: float = sequential.NORMAL.level) -> list[bool]:
    """Return which hypotheses Holm's method rejects, with a family-wise error rate of `alpha`.

    The default is the level of the last analysis of a run: the error rate over all its analyses is
    then 5 %. Use 0.05 for p values of samples that are analysed only once.
    Source: Holm 1979, A simple sequentially rejective multiple test procedure.

    >>> holm([0.04, 0.001, 0.03], 0.05)
    [False, True, False]
    """
    rejected = [False] * len(p_values)
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if not p_values[index] <= alpha / (len(p_values) - rank):
            break
        rejected[index] = True
    return rejected


def adjust_verdicts(
    verdicts: Sequence[Verdict], alpha: float = sequential.NORMAL.level, effect: float = EFFECT
) -> list[Verdict]:
    """Return the verdicts of one table, in their order, corrected by `holm` for multiple testing.

    A difference (faster, slower or tiny) that is no longer significant becomes unresolved; its
    interval does not change. `alpha` and `effect` are those of `compare`.
    """
    significant = holm([1.0 if verdict.p is None else verdict.p for verdict in verdicts], alpha)
    return [
        replace(
            verdict,
            outcome=UNRESOLVED,
            more_pairs=additional_pairs(verdict.sd, verdict.pairs, effect),
        )
        if verdict.outcome in (FASTER, SLOWER, TINY) and not kept and verdict.sd is not None
        else verdict
        for verdict, kept in zip(verdicts, significant, strict=True)
    ]


def _classify(mean: float, low: float, high: float, effect: float) -> str:
    """Return the outcome. Arguments are logarithms, so exchanging A and B changes only signs."""
    excludes_1 = low > 0 or high < 0
    if excludes_1 and abs(mean) > effect:
        return FASTER if mean > 0 else SLOWER
    if -effect < low and high < effect:
        return SAME
    return TINY if excludes_1 else UNRESOLVED


def _p_value(mean: float, sd: float, n: int) -> float:
    if sd == 0:  # all pairs have the same ratio
        return 0.0 if mean else 1.0
    return student_t.two_sided_p(mean / sd * math.sqrt(n), n - 1)
