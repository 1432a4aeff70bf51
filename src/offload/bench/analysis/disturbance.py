"""Decide whether other users of the machine disturbed a measurement."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from offload.bench.records.record import Record
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
    others, steal = _known(windows, "others_cpu"), _known(windows, "steal")
    if _in_half(others, MAX_OTHERS):
        used = f"other processes used {percent(statistics.median(others))} of the machine's CPU"
        return Flag("disturbed", used, remedy)
    if _in_half(steal, MAX_STEAL):
        used = f"the hypervisor used {percent(statistics.median(steal))} of the machine's CPU"
        return Flag("disturbed", used, "measure at a quieter time")
    first, second = _known(one, "others_cpu"), _known(other, "others_cpu")
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


def _known(windows: Sequence[Record], name: str) -> list[float]:
    """Return the known values of a share of the machine's CPU, by its field in `HostUse`."""
    shares = (getattr(record.resources.host, name) for record in windows)
    return [share for share in shares if share is not None]


def _in_half(shares: Sequence[float], limit: float) -> bool:
    return bool(shares) and sum(share > limit for share in shares) >= len(shares) / 2
