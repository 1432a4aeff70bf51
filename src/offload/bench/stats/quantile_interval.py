"""The confidence interval of a quantile of response times, from counts in buckets per round.

Requests of one round are alike: they share a server's start and a moment of the machine, so that an
interval from single requests would be too narrow. The share of requests beyond a time is compared
with that of the quantile instead; the ends are the times at which it is clearly larger or smaller
(Woodruff 1952, Confidence intervals for medians and other position measures). The interval of the
share is the exact binomial one for the effective number of requests: their number over the design
effect, by which rounds vary more than single requests would (Korn and Graubard 1998, Confidence
intervals for proportions with small expected number of positive counts estimated from survey data).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from offload.bench.stats import student_t

Counts = Mapping[int, int]  # number of requests by bucket; later buckets are longer times


@dataclass(frozen=True)
class Share:
    """The share of requests beyond a time, with the design effect of the rounds."""

    value: float
    design_effect: float


class _Rounds:
    """The requests of rounds, by the index of their bucket."""

    def __init__(self, rounds: Sequence[Counts]) -> None:
        self.buckets = sorted({bucket for counts in rounds for bucket in counts})
        ordered = [[counts.get(bucket, 0) for bucket in self.buckets] for counts in rounds]
        self._until = [[0, *accumulate(counts)] for counts in ordered]
        self._sizes = [until[-1] for until in self._until]
        self.size = sum(self._sizes)
        self.count = len(rounds)

    def beyond(self, index: int) -> Share:
        """Return the share of requests in buckets after that of an index; all for -1."""
        each = [until[-1] - until[index + 1] for until in self._until]
        share = sum(each) / self.size
        if share in (0, 1):
            return Share(share, 1.0)
        pairs = zip(each, self._sizes, strict=True)
        rest = sum((beyond - share * size) ** 2 for beyond, size in pairs)
        variance = rest * self.count / (self.count - 1) / self.size**2
        return Share(share, max(1.0, variance / (share * (1 - share) / self.size)))

    def effect_near(self, limit: float) -> float:
        """Return the larger design effect of the shares that are about a limit and twice as large.

        A share of 0 has none of its own.
        """
        indexes = range(len(self.buckets))
        reached = (
            bisect_left(indexes, True, key=lambda index: self.beyond(index).value < share)
            for share in (limit, 2 * limit)
        )
        return max(self.beyond(max(0, index - 1)).design_effect for index in reached)

    def least(self, index: int, level: float, effect: float) -> float:
        """Return the lower end of the share of requests in buckets after that of an index."""
        hits, trials = self._effective(index, level, effect)
        return student_t.beta_quantile(level, hits, trials - hits + 1) if hits > 0 else 0.0

    def most(self, index: int, level: float, effect: float) -> float:
        """Return the upper end of the share of requests in buckets after that of an index."""
        hits, trials = self._effective(index, level, effect)
        return student_t.beta_quantile(1 - level, hits + 1, trials - hits) if hits < trials else 1.0

    def _effective(self, index: int, level: float, effect: float) -> tuple[float, float]:
        """Return the effective numbers of requests beyond a bucket, and of all."""
        share = self.beyond(index)
        few = student_t.quantile(level, self.count - 1) / student_t.normal_quantile(level)
        trials = self.size / (max(effect, share.design_effect) * few**2)
        return share.value * trials, trials


def quantile_buckets(
    rounds: Sequence[Counts], share: float, level: float
) -> tuple[int | None, int | None]:
    """Return two buckets: the quantile is beyond the end of the first, and not of the second.

    Each of both statements is wrong at a share `level`. None if the counts do not support it.
    """
    if len(rounds) < 2:  # one does not show how rounds differ
        return None, None
    known, limit = _Rounds(rounds), 1 - share
    effect = known.effect_near(limit)
    indexes = range(len(known.buckets))
    first = bisect_left(
        indexes, True, key=lambda index: known.least(index - 1, level, effect) <= limit
    )
    last = bisect_left(indexes, True, key=lambda index: known.most(index, level, effect) <= limit)
    return (
        known.buckets[first - 1] - 1 if first > 0 else None,
        known.buckets[last] if last < len(indexes) else None,
    )
