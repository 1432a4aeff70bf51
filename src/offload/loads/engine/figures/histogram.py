"""A histogram of times: counts in logarithmic buckets; histograms are merged by addition."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

ERROR = 0.01  # maximum relative error of a quantile
GROWTH = (1 + ERROR) / (1 - ERROR)
SMALLEST = 1e-9  # s: the clock cannot distinguish a shorter time from 0

Histogram = Mapping[str, int]  # bucket number, a string as in JSON, to count


def histogram(ordered: Sequence[float]) -> dict[str, int]:
    """Count sorted times in s: bucket i holds the times in (GROWTH^(i-1), GROWTH^i].

    The buckets are those of DDSketch (Masson, Rim and Lee, VLDB 2019). There are far fewer buckets
    than times, so it is fast to find the end of each bucket by a binary search.
    """
    counts: dict[str, int] = {}
    done = 0
    while done < len(ordered):
        bucket = math.ceil(math.log(max(ordered[done], SMALLEST)) / math.log(GROWTH))
        until = max(done + 1, bisect_right(ordered, GROWTH**bucket, lo=done))
        counts[str(bucket)] = counts.get(str(bucket), 0) + until - done
        done = until
    return counts


def merge(histograms: Iterable[Histogram]) -> dict[str, int]:
    """Add histograms: the result equals one histogram of all the times."""
    total: Counter[str] = Counter()
    for one in histograms:
        total.update(one)
    return {bucket: total[bucket] for bucket in sorted(total, key=int)}


def count_within(counts: Histogram, limit_s: float) -> int:
    """Return the number of times up to a limit, with a relative error of the limit of ERROR."""
    return sum(count for bucket, count in counts.items() if GROWTH ** (int(bucket) - 1) < limit_s)


def quantile(counts: Histogram, share: float, at_least_s: float | None = None) -> float | None:
    """Return the `share` quantile in s, with a relative error of at most ERROR; None if empty.

    It is the value that differs by ERROR from both ends of the nearest rank's bucket. `at_least_s`
    is the timeout of requests that timed out. If the nearest rank is in the bucket of the timeout
    or a later one, the quantile is at least the timeout: this marks it as a lower bound.
    """
    rank = max(1, math.ceil(share * sum(counts.values())))
    for bucket in sorted(counts, key=int):
        rank -= counts[bucket]
        if rank <= 0:
            found: float = 2 * GROWTH ** int(bucket) / (GROWTH + 1)
            is_bound = at_least_s is not None and GROWTH ** int(bucket) >= at_least_s
            return max(found, at_least_s or 0.0) if is_bound else found
    return None
