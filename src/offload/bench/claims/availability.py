"""Availabilities: the share of requests that were completed, against what was published."""

from __future__ import annotations

from collections.abc import Sequence

from offload.bench.claims.evaluate import Judged
from offload.bench.records.record import LONG, Record
from offload.bench.stats import student_t
from offload.bench.stats.replication import DOES_NOT, HOLDS, IN_PART, NOT_COMPARABLE, UNRESOLVED
from offload.suites import Availability

PERCENT = " %"


def judge(suite: str, one: Availability, records: Sequence[Record] | None) -> Judged:
    """Judge a share by the newest long run of its case that was not quick, which is too short.

    Its interval is exact where one request fails without another; users that starve do so together,
    of which it knows nothing. It holds when the interval has the published share or lies below it,
    in part when fewer fail, and not when none does, of enough to tell.
    """
    keys = (LONG, one.case.key, False)
    own = [
        r
        for r in records or ()
        if (r.trial.kind, r.key, r.trial.quick) == keys and r.result.completed
    ]
    completed = own[-1].result.completed or 0 if own else 0
    finished = completed + (own[-1].result.failures or 0 if own else 0)
    low, high = student_t.binomial_interval(completed, finished) if finished else (None, None)
    word, reason = _verdict(one, records, low, high)
    return Judged(
        suite,
        one.name,
        100 * one.share,
        100 * completed / finished if finished else None,
        None if low is None else 100 * low,
        None if high is None else 100 * high,
        word,
        reason,
        unit=PERCENT,
        figure="availability",
        says=one.says,
    )


def _verdict(
    one: Availability, records: Sequence[Record] | None, low: float | None, high: float | None
) -> tuple[str, str]:
    if one.work is not None:
        return NOT_COMPARABLE, one.work
    if low is None or high is None:
        absent = "only a run without quick is long enough to tell"
        return UNRESOLVED, "not measured here yet" if records is None else absent
    if high == 1:  # none failed
        too_few = low <= one.share
        return (
            (UNRESOLVED, "too few requests to tell") if too_few else (DOES_NOT, "none fails here")
        )
    if low > one.share:
        return IN_PART, "fewer fail here"
    return HOLDS, "as published" if one.share <= high else "more fail here"
