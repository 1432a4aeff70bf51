"""Validity warnings on the records behind a claim: CPU use of others, impossible figures."""

from __future__ import annotations

from collections.abc import Sequence

from offload.bench.records import capacity
from offload.bench.records.record import WINDOW, Record
from offload.bench.stats import operational_laws

ABOVE = 1.02  # factor: a higher rate exceeds its ceiling
MAX_OTHERS_CPU = 0.25  # share of the machine's CPU, in most visits; a guess
LITTLE_TOLERANCE = 0.05  # difference between rate x mean / users and 1


def validity_warnings(own: Sequence[Record]) -> list[str]:
    """Check that rate <= users or slots / service time, and that users ~ mean x rate.

    Return at most one warning.
    """
    found = []
    if sum((r.resources.host.others_cpu or 0.0) > MAX_OTHERS_CPU for r in own) > len(own) / 2:
        found = ["other processes used the CPU: measure again at a quieter time"]
    alone_s = min(
        (r.baseline.alone_s for r in own if r.baseline.alone_s), default=0.0
    )  # the least disturbed
    for record in own:
        if (
            record.trial.kind != WINDOW
            or not record.result.rate
            or record.result.little_ratio is None
        ):
            continue
        known = operational_laws.ceilings(
            users=record.case.users, service_s=alone_s if alone_s > capacity.SHORT else 0
        )
        known += operational_laws.ceilings(
            workers=record.tasks.slots, service_s=record.tasks.slot_s
        )
        known += capacity.ceilings(record, alone_s)
        if exceeded := [c for c in known if record.result.rate > ABOVE * c.rate]:
            kind, rate = exceeded[0].kind, exceeded[0].rate
            found = [f"{record.case.task} is above its {kind} ceiling of {rate:.2f}/s"]
        elif abs(record.result.little_ratio - 1) > LITTLE_TOLERANCE:
            found = [
                f"rate x mean / users of {record.case.server} is "
                f"{record.result.little_ratio:.2f}, not 1"
            ]
    return found
