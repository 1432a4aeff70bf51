"""Percentiles: exact ones of samples, and those of histograms, which can be merged."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

SHORTEST = 1e-6  # seconds; anything shorter, and 0, counts as this
GROWTH = 1.02  # from bucket to bucket: a bucket's middle is within 1 % of all that is in it
LOG_GROWTH = math.log(GROWTH)


def nearest_rank(ordered: Sequence[float], share: float) -> float | None:
    """Give the smallest sample that at least `share` (0 to 1) of the `ordered` ones do not exceed.

    The samples must be sorted; the unit is theirs. None without samples. Raise ValueError for a
    share outside 0 to 1. Source: definition 1 of Hyndman and Fan 1996, Sample quantiles in
    statistical packages.
    """
    rank = _rank(len(ordered), share)
    return ordered[rank - 1] if ordered else None


@dataclass(frozen=True)
class Histogram:
    """Counts of durations by bucket: bucket i begins at SHORTEST x GROWTH^i seconds.

    Quantiles are within 1 % of the sample's from 1 us on; there is no longest duration (an hour is
    bucket 1111). Buckets without counts are left out. Source of the idea, a relative error that is
    the same everywhere: Masson, Rim and Lee 2019, DDSketch; Tene's HdrHistogram.
    """

    counts: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Histogram:
        """Count durations in seconds; raise ValueError for one that is not a number from 0 on."""
        return cls(dict(sorted(Counter(map(_bucket, seconds)).items())))

    @classmethod
    def from_json(cls, counts: Mapping[str, int]) -> Histogram:
        """Read what `to_json` gave; raise ValueError for buckets or counts that are no counts."""
        whole = all(isinstance(count, int) and count > 0 for count in counts.values())
        if not whole or not all(bucket.isdecimal() for bucket in counts):
            raise ValueError("a histogram maps bucket numbers to counts above 0")
        return cls({int(bucket): count for bucket, count in counts.items()})

    def to_json(self) -> dict[str, int]:
        """Give the counts by bucket number, as JSON wants its keys."""
        return {str(bucket): count for bucket, count in self.counts.items()}

    def __add__(self, other: Histogram) -> Histogram:
        """Merge two histograms: this is as exact as counting all samples in one."""
        return Histogram(dict(sorted((Counter(self.counts) + Counter(other.counts)).items())))

    @property
    def total(self) -> int:
        """The number of durations that were counted."""
        return sum(self.counts.values())

    def quantile(self, share: float) -> float | None:
        """Give the nearest-rank quantile in seconds, within 1 %; None without samples.

        Raise ValueError for a share outside 0 to 1.
        """
        rank = _rank(self.total, share)
        for bucket, count in sorted(self.counts.items()):
            rank -= count
            if rank <= 0:
                return SHORTEST * math.exp(LOG_GROWTH * (bucket + 0.5))
        return None


def _rank(n: int, share: float) -> int:
    """Give the rank, from 1; 0.07 x 100 is a little above 7 in floats and must not become 8."""
    if not 0 <= share <= 1:
        raise ValueError(f"a percentile is asked for a share from 0 to 1, not {share}")
    return max(1, math.ceil(share * n * (1 - 1e-12)))


def _bucket(seconds: float) -> int:
    if not 0 <= seconds < math.inf:
        raise ValueError(f"a duration is a number of seconds from 0 on, not {seconds}")
    return max(0, math.floor(math.log(max(seconds, SHORTEST) / SHORTEST) / LOG_GROWTH))
