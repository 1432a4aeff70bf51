"""A histogram of times: sparse counts in logarithmic buckets, which merge by addition."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

ERROR = 0.01  # relative, at most, of a quantile
GROWTH = (1 + ERROR) / (1 - ERROR)
SMALLEST = 1e-9  # s: what the clock cannot tell from nothing

Histogram = Mapping[str, int]  # by the bucket's number, in words as JSON has them


def histogram(ordered: Sequence[float]) -> dict[str, int]:
    """Count sorted times in s: bucket i holds those in (GROWTH^(i-1), GROWTH^i].

    The buckets are those of DDSketch (Masson, Rim and Lee, VLDB 2019). There are far fewer of them
    than times, so each is looked up in the times.
    """
    counts: dict[str, int] = {}
    done = 0
    while done < len(ordered):
        bucket = math.ceil(math.log(max(ordered[done], SMALLEST)) / math.log(GROWTH))
        until = max(done + 1, bisect_right(ordered, GROWTH**bucket, lo=done))
        counts[str(bucket)] = counts.get(str(bucket), 0) + until - done
        done = until
    return counts


def merged(histograms: Iterable[Histogram]) -> dict[str, int]:
    """Add histograms up: what one would have been that saw all the times."""
    total: Counter[str] = Counter()
    for one in histograms:
        total.update(one)
    return {bucket: total[bucket] for bucket in sorted(total, key=int)}


def quantile(counts: Histogram, share: float) -> float | None:
    """Give the time in s that `share` of all do not exceed, within ERROR; None when there is none.

    It is the nearest rank's bucket, by the value that is ERROR from both of its ends.
    """
    rank = max(1, math.ceil(share * sum(counts.values())))
    for bucket in sorted(counts, key=int):
        rank -= counts[bucket]
        if rank <= 0:
            return 2 * GROWTH ** int(bucket) / (GROWTH + 1)
    return None
