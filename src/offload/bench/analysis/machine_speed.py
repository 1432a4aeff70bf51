"""The change of the machine's speed, from the fixed work that is timed before each window."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from offload.bench.records.record import WINDOW, Record

MIN_WINDOWS = 5  # with fewer windows the change is unknown
KINDS = ("python_s", "memory_s")


def moved(*runs: Sequence[Record]) -> float | None:
    """Return the share by which the machine's speed changed during runs and between them.

    It is that of the kind of work (Python or memory) that changed more. None if a run is too short.
    """
    times = [work_times(records) for records in runs]
    found = [moved_times(*(each[kind] for each in times)) for kind in KINDS]
    return max((share for share in found if share is not None), default=None)


def moved_times(*runs: Sequence[float]) -> float | None:
    """Return max(p90) / min(p10) - 1 of the durations, with the percentiles of each run.

    None if a run has fewer than MIN_WINDOWS durations.
    """
    if not runs or any(len(times) < MIN_WINDOWS for times in runs):
        return None
    tenths = [statistics.quantiles(times, n=10, method="inclusive") for times in runs]
    return max(each[-1] for each in tenths) / min(each[0] for each in tenths) - 1


def work_times(records: Sequence[Record]) -> dict[str, list[float]]:
    """Return the durations in s of each kind of fixed work before the windows, by its field."""
    hosts = [record.resources.host for record in records if record.trial.kind == WINDOW]
    return {
        kind: [time for host in hosts if (time := getattr(host, kind) or 0.0) > 0] for kind in KINDS
    }
