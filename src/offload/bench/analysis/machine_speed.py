"""How far the speed of the machine moved, from the fixed work that is timed before each window."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from offload.bench.records.record import WINDOW, Record

MIN_WINDOWS = 5  # fewer do not show how the machine's speed moved
KINDS = ("python_s", "memory_s")


def moved(*runs: Sequence[Record]) -> float | None:
    """Return how far the machine's speed moved during runs and between them, as a share.

    It is the largest p90 / the smallest p10 - 1 of the durations of the fixed work in each run, for
    the kind of work (Python or memory) that moved more. None if a run is too short to show it.
    """
    found = [_moved(runs, kind) for kind in KINDS]
    return max((share for share in found if share is not None), default=None)


def _moved(runs: Sequence[Sequence[Record]], kind: str) -> float | None:
    tenths = [_tenths(records, kind) for records in runs]
    known = [each for each in tenths if each is not None]
    if not known or len(known) < len(tenths):
        return None
    return max(high for _, high in known) / min(low for low, _ in known) - 1


def _tenths(records: Sequence[Record], kind: str) -> tuple[float, float] | None:
    """Return p10 and p90 of the times of one kind of work."""
    hosts = [record.resources.host for record in records if record.trial.kind == WINDOW]
    times = [time for host in hosts if (time := getattr(host, kind))]
    if len(times) < MIN_WINDOWS:
        return None
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    return tenths[0], tenths[-1]
