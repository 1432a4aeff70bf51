"""Availability claims: compare the share of completed requests with the published share."""

from __future__ import annotations

from collections.abc import Sequence

from offload.bench.claims.evaluate import ClaimVerdict
from offload.engine import intervals
from offload.engine.decisions import DOES_NOT, HOLDS, IN_PART, NOT_COMPARABLE, UNRESOLVED
from offload.engine.record import LONG, Record
from offload.suites import Availability

PERCENT = " %"


def evaluate_availability(
    suite: str, one: Availability, records: Sequence[Record] | None
) -> ClaimVerdict:
    """Evaluate an availability claim by the newest long run of its case; quick runs are too short.

    The exact binomial interval assumes that requests fail independently, which is wrong if users
    starve together. The claim holds if the interval contains the published share or is below it. It
    holds in part if fewer requests fail, and does not hold if none fails in a long enough run.
    """
    keys = (LONG, one.case.key, False)
    runs = [
        r
        for r in records or ()
        if (r.trial.kind, r.key, r.trial.quick) == keys and r.result.completed is not None
    ]
    completed = runs[-1].result.completed or 0 if runs else 0
    finished = completed + (runs[-1].result.failures or 0 if runs else 0)
    low, high = intervals.binomial_interval(completed, finished) if finished else (None, None)
    verdict, reason = _verdict(one, records, low, high)
    return ClaimVerdict(
        suite,
        one.name,
        100 * one.share,
        100 * completed / finished if finished else None,
        None if low is None else 100 * low,
        None if high is None else 100 * high,
        verdict,
        reason,
        unit=PERCENT,
        figure="availability",
        statement=one.statement,
    )


def _verdict(
    one: Availability, records: Sequence[Record] | None, low: float | None, high: float | None
) -> tuple[str, str]:
    if one.work is not None:
        return NOT_COMPARABLE, one.work
    if low is None or high is None:
        absent = "only a run without quick is long enough"
        return UNRESOLVED, "not measured here yet" if records is None else absent
    if high == 1:  # none failed
        too_few = low <= one.share
        return (
            (UNRESOLVED, "too few requests for a verdict")
            if too_few
            else (DOES_NOT, "none fails here")
        )
    if low > one.share:
        return IN_PART, "fewer fail here"
    return HOLDS, "as published" if one.share <= high else "more fail here"
