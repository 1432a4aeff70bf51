"""The progress of a comparison on stderr: its maximum length, and the time to its next analysis."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from offload.bench.experiments.live import Live
from offload.bench.experiments.progress import duration
from offload.bench.stats.paired_test import Verdict
from offload.bench.trial import workload
from offload.suites import Case

AROUND = 1.0  # s of a slice beside its load: the start of its tool, and the requests after it


class Pace:
    """Print how many `pairs` of two cases there are; the caller adds to them."""

    def __init__(self, one: Case, other: Case, pairs: Sequence[object]) -> None:
        self._one, self._other = one.name, other.name
        self._pairs = pairs
        self._look, self._done, self._seen, self._pair_s = 0, 0, 0, 0.0
        self._began = self._at = time.monotonic()  # of these pairs, and of the last one's end

    def begin(self, look: int, most: int, servers: Sequence[Live], slice_s: float) -> None:
        """Start the pairs up to the next analysis; before the first, print the maximum length."""
        self._look, self._done, self._seen = look, len(self._pairs), len(self._pairs)
        self._began = self._at = time.monotonic()
        cycles = [workload.cycle_s(one.case, one.facts, one.baseline) for one in servers]
        self._pair_s = sum(max(workload.WARM, c) + max(slice_s, c) + AROUND for c in cycles)
        if not self._pairs:
            names = f"{self._one} against {self._other}, in turn"
            long = duration(most * self._pair_s)
            print(f"{names}: at most {most} pairs, about {long}", file=sys.stderr, flush=True)

    def line(self) -> str:
        """Return how many pairs there are, and the time left to the next analysis."""
        now = time.monotonic()
        if len(self._pairs) > self._seen:
            self._seen, self._at = len(self._pairs), now
            self._pair_s = (now - self._began) / (self._seen - self._done)
        left = max(0.0, self._pair_s * (self._look - self._seen) - (now - self._at))
        return f"{len(self._pairs)} pairs; {duration(left)} to the look at {self._look}"

    def tell(self, found: Verdict) -> None:
        """Print the result of an analysis."""
        if found.ratio is not None and found.low is not None and found.high is not None:
            times = f"{found.ratio:.3f} ({found.low:.3f} to {found.high:.3f}) times {self._one}"
            words = f"{found.pairs} pairs: {self._other} is {times}: {found.outcome}"
            print(words, file=sys.stderr, flush=True)
