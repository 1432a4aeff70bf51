"""The verdict on two cases that were measured in pairs: whether B is faster than A."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from offload.bench.stats import sequential, student_t

EFFECT = 0.02  # the smallest difference that matters, as a share; 0.05 with `quick`
FASTER, SLOWER, SAME, TINY, UNRESOLVED = "faster", "slower", "same", "tiny", "unresolved"


@dataclass(frozen=True)
class Verdict:
    """What the pairs say of B against A. Ratios are B over A: above 1, B is faster than A.

    `low` and `high` are the interval of `ratio`, `pairs` counts what was measured, and `p` is the
    two-sided p of this look alone. `sd` is the standard deviation of the pairs' log-ratios, about
    a share. `more_pairs` would settle it: at least 1 when unresolved, and 0 otherwise. None is not
    known: it takes two pairs.
    """

    word: str
    ratio: float | None
    low: float | None
    high: float | None
    pairs: int
    more_pairs: int | None
    p: float | None
    sd: float | None = None


def compare(
    pairs: Sequence[tuple[float, float]],
    alpha: float = sequential.PAIRS.level,
    effect: float = EFFECT,
) -> Verdict:
    """Compare the rates (A, B) of `pairs`, in one unit; ask at the counts of `looks.PAIRS` only.

    The first of these that is true is the word, with `effect` a share, 1 + effect to both sides:
    faster, slower: the interval excludes 1 and the ratio is beyond the effect;
    same: the whole interval is inside the effect (also when it excludes 1);
    tiny: the interval excludes 1, the ratio is below the effect; unresolved: anything else.
    Raise ValueError for rates that are not numbers above 0, and for an alpha or effect below 0.

    Source: paired t test of the log-ratios (Student 1908); "same" is the two one-sided tests of
    Schuirmann 1987.
    """
    if not all(0 < rate < math.inf for pair in pairs for rate in pair):
        raise ValueError("a pair is two rates above 0: leave out pairs that have none")
    if not (0 < alpha < 1 and effect > 0):
        raise ValueError(f"alpha and effect are shares above 0, not {alpha} and {effect}")
    n, logs = len(pairs), [math.log(b) - math.log(a) for a, b in pairs]
    if n < 2:
        ratio = math.exp(logs[0]) if logs else None
        return Verdict(UNRESOLVED, ratio, None, None, n, None, None)
    mean, sd = statistics.fmean(logs), statistics.stdev(logs)
    low, high = student_t.mean_interval(logs, alpha)
    word = _word(mean, low, high, math.log1p(effect))
    more = further(sd, n, effect) if word == UNRESOLVED else 0
    p = _p(mean, sd, n)
    return Verdict(word, math.exp(mean), math.exp(low), math.exp(high), n, more, p, sd)


def further(sd: float, done: int, effect: float = EFFECT) -> int:
    """Give how many pairs beyond `done` would settle a verdict whose pairs vary by `sd`.

    N = (2.1 sd / effect)^2 in all, at least one more. `sd` and `effect` are shares. Source: the
    half-width of N pairs' interval, about 2.1 sd / sqrt(N) (Student 1908), is then the effect.
    """
    return max(1, math.ceil((2.1 * sd / effect) ** 2) - done)


def holm(p_values: Sequence[float], alpha: float = sequential.PAIRS.level) -> list[bool]:
    """Say which of several p values survive when one wrong among all of them may err in `alpha`.

    The default is the level of one look, which is 5 % over all looks, as in `compare`; for p
    values of samples that were looked at once it is 0.05.
    Source: Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    survives = [False] * len(p_values)
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if not p_values[index] <= alpha / (len(p_values) - rank):
            break
        survives[index] = True
    return survives


def together(
    verdicts: Sequence[Verdict], alpha: float = sequential.PAIRS.level, effect: float = EFFECT
) -> list[Verdict]:
    """Give the verdicts of one table, in their order, corrected by `holm` for being several.

    A difference (faster, slower or tiny) that does not survive becomes unresolved; its interval
    stays that of the pair alone. `alpha` and `effect` are those of `compare`.
    """
    survives = holm([1.0 if verdict.p is None else verdict.p for verdict in verdicts], alpha)
    return [
        replace(verdict, word=UNRESOLVED, more_pairs=further(verdict.sd, verdict.pairs, effect))
        if verdict.word in (FASTER, SLOWER, TINY) and not kept and verdict.sd is not None
        else verdict
        for verdict, kept in zip(verdicts, survives, strict=True)
    ]


def _word(mean: float, low: float, high: float, effect: float) -> str:
    """Choose the word; everything is a logarithm, so A and B are exchanged by changing signs."""
    excludes = low > 0 or high < 0
    if excludes and abs(mean) > effect:
        return FASTER if mean > 0 else SLOWER
    if -effect < low and high < effect:
        return SAME
    return TINY if excludes else UNRESOLVED


def _p(mean: float, sd: float, n: int) -> float:
    if sd == 0:  # identical pairs leave no doubt, or no difference
        return 0.0 if mean else 1.0
    return student_t.two_sided_p(mean / sd * math.sqrt(n), n - 1)
