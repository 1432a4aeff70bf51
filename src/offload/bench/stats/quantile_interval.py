"""The confidence interval of a quantile of response times, from counts in buckets per round.

Requests of one round are correlated: they have the same server process and the same state of the
machine, so an interval that treats them as independent would be too narrow. The method inverts the
interval of a share (Woodruff 1952, Confidence intervals for medians and other position measures).
For the 99 % quantile, the ends of its interval are the times beyond which the share of requests is
significantly more, or less, than 1 %. The interval of this share is the exact binomial one for the
effective number of requests, which is their number divided by the design effect: the factor by
which the share varies more between rounds than it would with independent requests (Korn and
Graubard 1998, Confidence intervals for proportions with small expected number of positive counts
estimated from survey data).
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


class _RequestCounts:
    """The number of requests by round and bucket; buckets have an index in ascending order."""

    def __init__(self, rounds: Sequence[Counts]) -> None:
        self.buckets = sorted({bucket for counts in rounds for bucket in counts})
        ordered = [[counts.get(bucket, 0) for bucket in self.buckets] for counts in rounds]
        self._until = [[0, *accumulate(counts)] for counts in ordered]
        self._sizes = [until[-1] for until in self._until]
        self.size = sum(self._sizes)
        self.count = len(rounds)

    def beyond(self, index: int) -> Share:
        """Return the share of requests in the buckets after `index`; for -1, of all requests."""
        each = [until[-1] - until[index + 1] for until in self._until]
        share = sum(each) / self.size
        if share in (0, 1):
            return Share(share, 1.0)
        pairs = zip(each, self._sizes, strict=True)
        squares = sum((beyond - share * size) ** 2 for beyond, size in pairs)
        variance = squares * self.count / (self.count - 1) / self.size**2
        return Share(share, max(1.0, variance / (share * (1 - share) / self.size)))

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
        return student_t.beta_quantile(level, hits, trials - hits + 1) if hits > 0 else 0.0

    def high(self, index: int, level: float, effect: float) -> float:
        """Return the upper end of the interval of the share of requests after `index`."""
        hits, trials = self._effective(index, level, effect)
        return student_t.beta_quantile(1 - level, hits + 1, trials - hits) if hits < trials else 1.0

    def _effective(self, index: int, level: float, effect: float) -> tuple[float, float]:
        """Return the effective number of requests after `index`, and that of all requests."""
        share = self.beyond(index)
        few_rounds = student_t.quantile(level, self.count - 1) / student_t.normal_quantile(level)
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
