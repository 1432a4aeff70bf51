"""Validity warnings on the records of a claim: CPU use of other processes, impossible figures."""

from __future__ import annotations

from collections.abc import Sequence

from offload.bench.analysis import capacity
from offload.bench.records.record import WINDOW, Record

MAX_OTHERS_CPU = 0.25  # share of the machine's CPU, in most windows; a guess
LITTLE_TOLERANCE = 0.05  # difference between rate x mean / users and 1


def validity_warnings(own: Sequence[Record]) -> list[str]:
    """Return at most one warning: other processes used the CPU, or a figure is impossible.

    A rate must not exceed users or slots / service time, and rate x mean must be about the number
    of users.
    """
    found = []
    if sum((r.resources.host.others_cpu or 0.0) > MAX_OTHERS_CPU for r in own) > len(own) / 2:
        found = ["other processes used the CPU: measure again at a quieter time"]
    for record in own:
        if (
            record.trial.kind != WINDOW
            or not record.result.rate
            or record.result.little_ratio is None
        ):
            continue
        if ceiling := capacity.exceeded(record, own):
            what = f"its {ceiling.kind} ceiling of {ceiling.rate:.2f}/s"
            found = [f"{record.case.task} is above {what}"]
        elif abs(record.result.little_ratio - 1) > LITTLE_TOLERANCE:
            found = [
                f"rate x mean / users of {record.case.server} is "
                f"{record.result.little_ratio:.2f}, not 1"
            ]
    return found
