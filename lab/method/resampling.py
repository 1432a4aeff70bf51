"""Validation by resampling: error rates of the intervals and verdicts where the truth is known.

Measured rates and pairs are resampled with replacement, so that their spread, skew and outliers
are realistic. Source: Efron 1979, Bootstrap methods: another look at the jackknife.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from offload.engine import decisions, intervals
from offload.engine.intervals import Estimate, estimate

NOMINAL_COVERAGE = 0.95  # share of intervals that contain the truth
MAX_FALSE_POSITIVES = 0.05  # share of comparisons of a case with itself
MIN_POWER = 0.90  # share of true differences that are detected
MAX_RED = intervals.GATE_ERROR  # share of gates that are red although no loss exceeds the limit

T = TypeVar("T")
Pair = tuple[float, float]
Pairs = Sequence[Pair]


@dataclass(frozen=True)
class ResamplingResult:
    """The number of `hits` in `trials`; `passed` is whether their share meets the requirement.

    `low` and `high` are the ends of the exact binomial 95 % interval, shares from 0 to 1.
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
    design: intervals.SequentialDesign = intervals.NORMAL,
    target: float | None = None,
) -> ResamplingResult:
    """Count the simulated runs whose final interval contains the true rate.

    Each run samples its rounds from `rates` in requests/s, which should be at least 300 of one
    case. `truth` is by default their geometric mean; `design` and `target` are those of `estimate`.
    Passes if `high` is at least 95 %; with several analyses the coverage is usually 97 to 98 %.
    Raise ValueError without rates or for one that is not above 0.
    """
    rng = rng or random.Random(0)  # noqa: S311 (no secret: a reproducible run)
    if not rates:
        raise ValueError("there are no rates: nothing to resample")
    true = statistics.geometric_mean(rates) if truth is None else truth
    hits = 0
    for _ in range(runs):
        sample = rng.choices(rates, k=design.last)
        end = _final_estimate(sample, design, target)
        hits += end.low is not None and end.high is not None and end.low <= true <= end.high
    low, high = intervals.binomial_interval(hits, runs)
    return ResamplingResult(hits, runs, low, high, high >= NOMINAL_COVERAGE)


def aa_test(
    pairs: Pairs,
    comparisons: int = 200,
    rng: random.Random | None = None,
    effect: float = decisions.EFFECT,
) -> ResamplingResult:
    """Count the false positives: comparisons of a case with itself that end as faster or slower.

    `pairs` are rates (A, B) of the same case; A and B are exchanged at random, so the true ratio is
    1. `effect` is the smallest difference that matters, a share. Passes if `low` is at most 5 %.
    Raise ValueError without pairs or for rates that are not above 0.
    """
    rng = rng or random.Random(0)  # noqa: S311
    hits = 0
    for _ in range(comparisons):
        sample = _resample_exchanged(pairs, rng, intervals.NORMAL.last)
        hits += _final_outcome(sample, effect) in (decisions.FASTER, decisions.SLOWER)
    low, high = intervals.binomial_interval(hits, comparisons)
    return ResamplingResult(hits, comparisons, low, high, low <= MAX_FALSE_POSITIVES)


def power(
    pairs: Pairs,
    effect: float = 0.10,
    sd: float = 0.05,
    comparisons: int = 200,
    rng: random.Random | None = None,
    most: int = 20,
) -> ResamplingResult:
    """Count the comparisons of at most `most` pairs that detect that B is faster by `effect`.

    The log-ratios of `pairs` are centred, scaled to the standard deviation `sd` and shifted by
    log(1 + effect); `effect` and `sd` are shares. Passes if at least 90 % detect it. Raise
    ValueError for fewer than two pairs, or if they do not vary.
    """
    rng = rng or random.Random(0)  # noqa: S311
    logs = [math.log(b / a) for a, b in pairs]
    mean = statistics.fmean(logs) if logs else 0.0
    if len(logs) < 2 or not (spread := statistics.stdev(logs)):
        raise ValueError("pairs without variance cannot be scaled")
    shifted = [math.log1p(effect) + (x - mean) * sd / spread for x in logs]
    true = [(1.0, math.exp(x)) for x in shifted]
    found = (_final_outcome(_resample(true, rng, most)) for _ in range(comparisons))
    hits = sum(outcome == decisions.FASTER for outcome in found)
    low, high = intervals.binomial_interval(hits, comparisons)
    return ResamplingResult(hits, comparisons, low, high, hits >= MIN_POWER * comparisons)


def gate_test(
    pools: Sequence[Pairs],
    loss: float = 0.0,
    margin: float = 0.05,
    gates: int = 300,
    cases: int = 1,
    rng: random.Random | None = None,
) -> ResamplingResult:
    """Count the red ones among `gates` simulated gates, whose cases have all lost `loss`, a share.

    Each gate has `cases` cases and allows a loss of `margin`. Each of `pools` has rounds of one
    case compared with itself; A and B are exchanged at random. Passes if `low` is at most 1 %.
    Raise ValueError without rounds.
    """
    rng = rng or random.Random(0)  # noqa: S311
    hits = 0
    for _ in range(gates):
        chosen = [rng.choice(pools) for _ in range(cases)]
        hits += any(_is_red(rounds, loss, margin, cases, rng) for rounds in chosen)
    low, high = intervals.binomial_interval(hits, gates)
    return ResamplingResult(hits, gates, low, high, low <= MAX_RED)


def _is_red(pairs: Pairs, loss: float, margin: float, cases: int, rng: random.Random) -> bool:
    """Whether a simulated case makes its gate red; its analyses stop at the first verdict."""
    sample = _resample_exchanged(pairs, rng, intervals.GATE.last)
    with_loss = [(a, b * (1 - loss)) for a, b in sample]
    for count in intervals.GATE.counts:
        found = decisions.paired_ratio(with_loss[:count])
        assert found is not None
        error = intervals.GATE.stopping_level(count) / 2
        low, high = found.low(error), found.high(error / cases)
        outcome = decisions.classify_loss(low, high, margin)
        if outcome != decisions.UNDECIDED:
            return outcome == decisions.LOSS
    return False


def _final_estimate(
    rates: Sequence[float], design: intervals.SequentialDesign, target: float | None
) -> Estimate:
    """Return the estimate of the analysis at which a run stops."""
    for n in design.counts:
        end = estimate(rates[:n], design, target)
        if end.resolved:
            break
    return end


def _final_outcome(pairs: Pairs, effect: float = decisions.EFFECT) -> str:
    """Return the outcome of the analysis at which a comparison stops."""
    outcome = decisions.UNRESOLVED
    design = intervals.NORMAL
    counts = [count for count in design.counts if count <= len(pairs)]
    for n in counts:
        level = design.level if n == counts[-1] else design.early
        outcome = decisions.compare_pairs(pairs[:n], level, effect).outcome
        if outcome != decisions.UNRESOLVED:
            break
    return outcome


def _resample_exchanged(pairs: Pairs, rng: random.Random, count: int) -> list[Pair]:
    """Resample pairs (A, B) and exchange A and B at random, so that the true ratio is 1."""
    sample = _resample(pairs, rng, count)
    return [(b, a) if rng.random() < 0.5 else (a, b) for a, b in sample]


def _resample(rounds: Sequence[T], rng: random.Random, count: int) -> list[T]:
    if not rounds:
        raise ValueError("there are no rounds: nothing to resample")
    return rng.choices(rounds, k=count)
