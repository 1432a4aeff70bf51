"""The doubts about what a claim was judged by: others on the machine, impossible figures."""

from __future__ import annotations

from collections.abc import Sequence

from offload.bench.records import capacity
from offload.bench.records.record import VISIT, Record
from offload.bench.stats import operational_laws

ABOVE = 1.02  # of a ceiling, which nothing exceeds
OTHERS = 0.25  # of the machine's CPU, in most visits, beyond which that is said; a guess
LITTLE = 0.05  # by which rate x mean / users may differ from 1


def of(own: Sequence[Record]) -> list[str]:
    """Audit what was measured: rate <= users or slots / service time, users ~ mean x rate."""
    found = []
    if sum((r.resources.host.others_cpu or 0.0) > OTHERS for r in own) > len(own) / 2:
        found = ["others used the CPU meanwhile: ask again at a quieter time"]
    alone_s = min(
        (r.baseline.alone_s for r in own if r.baseline.alone_s), default=0.0
    )  # least disturbed by others
    for record in own:
        if (
            record.trial.kind != VISIT
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
        elif abs(record.result.little_ratio - 1) > LITTLE:
            found = [
                f"rate x mean / users of {record.case.server} is "
                f"{record.result.little_ratio:.2f}, not 1"
            ]
    return found
