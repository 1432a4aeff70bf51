"""Validity warnings on the records of a claim: disturbed loads, impossible figures."""

from __future__ import annotations

from collections.abc import Sequence

from offload.bench.analysis import capacity
from offload.engine.figures import find_disturbance
from offload.engine.record import WINDOW, Record

LITTLE_TOLERANCE = 0.05  # difference between rate x mean / users and 1


def validity_warnings(own: Sequence[Record]) -> list[str]:
    """Return at most one warning: the loads were disturbed, or a figure is impossible.

    A rate must not exceed users or slots / service time, and rate x mean must be about the number
    of users. In a short window they also differ because of the requests that started before it or
    ended after it, so a figure is reported if more than half of the windows have the finding.
    """
    if (flag := find_disturbance(own, [])) is not None:
        return [str(flag)]
    windows = [
        record
        for record in own
        if record.trial.kind == WINDOW
        and record.result.rate
        and record.result.little_ratio is not None
    ]
    for find in (_above_ceiling, _apart_from_users):
        found = [words for record in windows if (words := find(record, own))]
        if len(found) > len(windows) / 2:
            return found[-1:]
    return []


def _above_ceiling(record: Record, own: Sequence[Record]) -> str | None:
    ceiling = capacity.exceeded(record, own)
    if ceiling is None:
        return None
    return f"{record.case.task} is above its {ceiling.kind} ceiling of {ceiling.rate:.2f}/s"


def _apart_from_users(record: Record, _: Sequence[Record]) -> str | None:
    ratio = record.result.little_ratio
    if ratio is None or abs(ratio - 1) <= LITTLE_TOLERANCE:
        return None
    return f"rate x mean / users of {record.case.server} is {ratio:.2f}, not 1"
