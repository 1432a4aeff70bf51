"""The schedule: which visit is next, as it follows from a plan and the records so far.

First every case has its long run, in the order of the table. Then every round visits each case
once, in an order of its own, until the case is known well enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.records import rate
from offload.bench.records.plan import Plan
from offload.bench.records.record import LONG, VISIT, Record
from offload.bench.records.run_records import RunRecords
from offload.bench.stats.estimate import SLOW, Estimate
from offload.suites import Case

ENOUGH = 60.0  # s of load, counted or not, after which a case stays unresolved
ENOUGH_SLOW = 180.0  # the same for cases below SLOW requests a second
ENOUGH_QUICK = 10.0  # the same with quick
HOPELESS = 2  # records without a rate in a row, after which a case is not tried again


@dataclass(frozen=True)
class Due:
    """A visit that is due: its `kind`, its `round` (0 for long runs) and `order` within it."""

    kind: str
    round: int
    order: int
    case: Case


def due(plan: Plan, records: Sequence[Record]) -> list[Due]:
    """Return the visits that are still due in the first round that is not finished.

    Call it again when they are done: whether there is another round depends on their rates.
    """
    made = {(record.trial.kind, record.trial.round, record.key) for record in records}
    for number in range(plan.design.last + 1):
        kind = VISIT if number else LONG
        cases = plan.order(number) if number else plan.cases if plan.driver else ()
        todo = [
            Due(kind, number, order, case)
            for order, case in enumerate(cases, start=1)
            if (kind, number, case.key) not in made
            and not is_finished(plan, before(records, case, number))
        ]
        if todo:
            return todo
    return []


def before(records: Sequence[Record], case: Case, number: int) -> list[Record]:
    """Return a case's last attempts of the rounds before `number`."""
    own = RunRecords(records).of_case(case.key).last_attempts()
    return [record for record in own if (record.trial.round or 0) < number]


def is_finished(plan: Plan, own: Sequence[Record]) -> bool:
    """Whether a case needs no further visit, by its records so far."""
    visits = [record for record in own if record.trial.kind == VISIT]
    if len(own) >= HOPELESS and all(record.result.rate is None for record in own[-HOPELESS:]):
        return True
    if plan.driver is not None and own and own[0].is_unavailable:
        return True
    found = rate.of_visits(visits)
    if found.resolved:
        return True
    loaded_s = sum(record.trial.phases.get("load", 0.0) for record in visits)
    return found.n >= plan.design.counts[0] and loaded_s >= _enough_s(plan, found)


def _enough_s(plan: Plan, found: Estimate) -> float:
    if plan.quick:
        return ENOUGH_QUICK
    return ENOUGH_SLOW if found.value is not None and found.value < SLOW else ENOUGH
