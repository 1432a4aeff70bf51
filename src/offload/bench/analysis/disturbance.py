"""Decide whether other users of the machine, or changes of its speed, disturbed a measurement."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from offload.engine.record import WINDOW, Record
from offload.flags import Flag
from offload.units import percent

# Shares of the machine's CPU. Windows have higher limits than long runs because a comparison uses
# the median of many windows.
LONG_OTHERS, LONG_STEAL = 0.1, 0.01  # in one long run, and for notes on tables
MAX_OTHERS, MAX_STEAL = 1 / 3, 0.05  # in half of the windows
MAX_DIFFERENCE = 0.10  # between the means of the two cases


def between(one: Sequence[Record], other: Sequence[Record]) -> Flag | None:
    """Return the reason if the windows of two cases cannot be compared, else None.

    With an empty `other`, the reason is about the figures of one case.
    """
    windows = [*one, *other]
    remedy = "end the other processes (see offload doctor), or measure at a quieter time"
    others, steal = _known_shares(windows, "others_cpu"), _known_shares(windows, "steal")
    if _in_half(others, MAX_OTHERS):
        used = f"other processes used {percent(statistics.median(others))} of the machine's CPU"
        return Flag("disturbed", used, remedy)
    if _in_half(steal, MAX_STEAL):
        used = f"the hypervisor used {percent(statistics.median(steal))} of the machine's CPU"
        return Flag("disturbed", used, "measure at a quieter time")
    first, second = _known_shares(one, "others_cpu"), _known_shares(other, "others_cpu")
    if not first or not second:
        return None
    means = statistics.fmean(first), statistics.fmean(second)
    if abs(means[0] - means[1]) > MAX_DIFFERENCE:
        shares = (
            f"{percent(means[0])} of the machine's CPU during one case, "
            f"{percent(means[1])} during the other"
        )
        return Flag("disturbed", f"other processes used {shares}", remedy)
    return None


def _known_shares(windows: Sequence[Record], name: str) -> list[float]:
    """Return the known values of a share of the machine's CPU, by its field in `HostUse`."""
    shares = (getattr(record.resources.host, name) for record in windows)
    return [share for share in shares if share is not None]


def _in_half(shares: Sequence[float], limit: float) -> bool:
    return bool(shares) and sum(share > limit for share in shares) >= len(shares) / 2


MIN_WINDOWS = 5  # with fewer windows the change is unknown
SPEED_KINDS = ("python_s", "memory_s")


def speed_change(*runs: Sequence[Record]) -> float | None:
    """Return the share by which the machine's speed changed during runs and between them.

    It is that of the kind of work (Python or memory) that changed more. None if a run is too short.
    """
    times = [work_times(records) for records in runs]
    found = [change_of_times(*(each[kind] for each in times)) for kind in SPEED_KINDS]
    return max((share for share in found if share is not None), default=None)


def change_of_times(*runs: Sequence[float]) -> float | None:
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
        kind: [time for host in hosts if (time := getattr(host, kind) or 0.0) > 0]
        for kind in SPEED_KINDS
    }
