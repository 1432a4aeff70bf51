"""Count how often the threads other than that of the event loop stopped to wait (Linux).

Standard library only. A thread that waits for its next call, or for the GIL, is counted each time.
"""

from __future__ import annotations

import sys
from time import monotonic

from offload.serving.metrics.samples import Samples

if sys.platform == "linux":
    from resource import RUSAGE_SELF, RUSAGE_THREAD, getrusage

_samples = Samples(2)


def sample() -> None:
    """Store the count; call it on the loop's timer."""
    if sys.platform == "linux":
        others = getrusage(RUSAGE_SELF).ru_nvcsw - getrusage(RUSAGE_THREAD).ru_nvcsw
        _samples.add(monotonic(), others)


def between(start: float, end: float) -> int | None:
    """Return the number in a window; None without samples, or if several loops ran."""
    rows = _samples.between(start, end) or []
    if len(rows) < 2 or rows[-1][1] < rows[0][1]:
        return None
    return round(rows[-1][1] - rows[0][1])
