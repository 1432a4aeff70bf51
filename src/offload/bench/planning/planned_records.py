"""The records of a run that belong to its plan; others, which an edited file may have, are ignored.

A record of an unknown block or round would change which rounds are due, and one of an unknown case
would add a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from offload.bench.planning import plan_file
from offload.bench.planning.plan import Plan
from offload.bench.records import journal
from offload.bench.records.record import TEST, WINDOW, Record
from offload.errors import StorageError


def read(folder: Path, plan: Plan | None = None) -> list[Record]:
    """Read the records of a run's plan; ignore others with one warning. Raise StorageError.

    `plan` is by default the plan in the folder. Without a plan that this version can read, return
    all records.
    """
    records = journal.read(folder)
    plan = plan or _plan_of(folder)
    if plan is None:
        return records
    known = of_plan(plan, records)
    if ignored := len(records) - len(known):
        what = "1 record is" if ignored == 1 else f"{ignored} records are"
        path = folder / journal.FILE
        journal.warn_once(f"{path}: {what} of no case, block or round of its plan, ignored")
    return known


def of_plan(plan: Plan, records: Sequence[Record]) -> list[Record]:
    """Return the records whose case, block and round are in the plan."""
    places = [frozenset(block.cases) for block in plan.blocks]
    return [record for record in records if _is_planned(plan, places, record)]


def _is_planned(plan: Plan, places: Sequence[frozenset[int]], record: Record) -> bool:
    trial = record.trial
    if trial.kind == TEST:
        return True
    if trial.place is not None and not 0 <= trial.place < len(plan.cases):
        return False
    if trial.kind != WINDOW or trial.block is None or not places:  # advice numbers its own blocks
        return True
    if not 0 <= trial.block < len(places) or trial.place not in places[trial.block]:
        return False
    return trial.round is not None and 1 <= trial.round <= plan.counts[-1]


def _plan_of(folder: Path) -> Plan | None:
    try:
        return plan_file.load(folder) if plan_file.exists(folder) else None
    except StorageError:  # written by another version: the records suffice for a report
        return None
