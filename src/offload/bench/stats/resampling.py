"""The judge of the method: what its intervals and verdicts do where the truth is known.

Real visits and pairs are resampled with replacement (Efron 1979, Bootstrap
methods: another look at the jackknife), so that their spread, skew and stragglers stay real.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.stats import paired_test, sequential, student_t
from offload.bench.stats.estimate import Estimate, estimate

PROMISED = 0.95  # of the intervals contain the truth
ERROR = 0.05  # at most, of the comparisons of a case with itself say that it differs
POWER = 0.90  # at least, of the true differences are found

Pairs = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Judged:
    """How often something happened: `hits` of `trials`, `low` and `high` as shares, from 0 to 1.

    These are the ends of the exact binomial interval (95 %). `passed` is what is asked of it.
    """

    hits: int
    trials: int
    low: float
    high: float
    passed: bool

    @property
    def share(self) -> float:
        """The share of hits, from 0 to 1."""
        return self.hits / self.trials


def coverage(
    rates: Sequence[float],
    truth: float | None = None,
    runs: int = 100,
    rng: random.Random | None = None,
    schedule: sequential.Looks = sequential.NORMAL,
    target: float | None = None,
) -> Judged:
    """Count the runs whose interval, where the stop rule ended them, contains the truth.

    Each run draws its visits from `rates`, requests a second, at least 300 of one case. `truth` is
    their geometric mean when None; `schedule` and `target` are those of `estimate`. Passed when
    95 % is between low and high: too many hits fail too (intervals that are wider than promised).
    Raise ValueError without rates or for one that is not above 0.
    """
    rng = rng or random.Random(0)  # noqa: S311 (no secret: a run that can be repeated)
    if not rates:
        raise ValueError("without rates there is nothing to resample")
    true = statistics.geometric_mean(rates) if truth is None else truth
    hits = 0
    for _ in range(runs):
        drawn = rng.choices(rates, k=schedule.last)
        end = _stopped(drawn, schedule, target)
        hits += end.low is not None and end.high is not None and end.low <= true <= end.high
    low, high = student_t.binomial_interval(hits, runs)
    return Judged(hits, runs, low, high, low <= PROMISED <= high)


def aa(
    pairs: Pairs,
    comparisons: int = 200,
    rng: random.Random | None = None,
    effect: float = paired_test.EFFECT,
) -> Judged:
    """Count the comparisons of a case with itself that say faster or slower at one of the looks.

    `pairs` are rates (A, B) of one and the same case; each drawn pair is exchanged or not at
    random, so that the truth is 1. `effect` is the smallest difference that matters, a share.
    Passed when `low` is 5 % or less. Raise ValueError without pairs or for rates not above 0.
    """
    rng = rng or random.Random(0)  # noqa: S311
    hits = 0
    for _ in range(comparisons):
        drawn = _drawn(pairs, rng, sequential.PAIRS.last)
        drawn = [(b, a) if rng.random() < 0.5 else (a, b) for a, b in drawn]
        hits += _word(drawn, effect) in (paired_test.FASTER, paired_test.SLOWER)
    low, high = student_t.binomial_interval(hits, comparisons)
    return Judged(hits, comparisons, low, high, low <= ERROR)


def power(
    pairs: Pairs,
    effect: float = 0.10,
    sd: float = 0.05,
    comparisons: int = 200,
    rng: random.Random | None = None,
    most: int = 20,
) -> Judged:
    """Count the comparisons of `most` pairs or fewer that find B faster by `effect`, a share.

    The log-ratios of `pairs` are centred, scaled to the standard deviation `sd` and moved by
    log(1 + effect). Passed when 90 % find it. Raise ValueError for pairs that do not vary
    or are fewer than two.
    """
    rng = rng or random.Random(0)  # noqa: S311
    logs = [math.log(b / a) for a, b in pairs]
    mean = statistics.fmean(logs) if logs else 0.0
    if len(logs) < 2 or not (spread := statistics.stdev(logs)):
        raise ValueError("pairs that do not vary cannot be scaled to vary")
    moved = [math.log1p(effect) + (x - mean) * sd / spread for x in logs]
    true = [(1.0, math.exp(x)) for x in moved]
    found = (_word(_drawn(true, rng, most)) for _ in range(comparisons))
    hits = sum(word == paired_test.FASTER for word in found)
    low, high = student_t.binomial_interval(hits, comparisons)
    return Judged(hits, comparisons, low, high, hits >= POWER * comparisons)


def _stopped(rates: Sequence[float], schedule: sequential.Looks, target: float | None) -> Estimate:
    """Look as a run does, and give the estimate that ends it."""
    for n in schedule.counts:
        end = estimate(rates[:n], schedule, target)
        if end.resolved:
            break
    return end


def _word(pairs: Pairs, effect: float = paired_test.EFFECT) -> str:
    """Look as a comparison does, and give the word that ends it."""
    word = paired_test.UNRESOLVED
    for n in (count for count in sequential.PAIRS.counts if count <= len(pairs)):
        word = paired_test.compare(pairs[:n], sequential.PAIRS.level, effect).word
        if word != paired_test.UNRESOLVED:
            break
    return word


def _drawn(pairs: Pairs, rng: random.Random, count: int) -> list[tuple[float, float]]:
    if not pairs:
        raise ValueError("without pairs there is nothing to resample")
    return rng.choices(pairs, k=count)
