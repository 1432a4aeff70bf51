"""Read the records of a run, and ignore those that are not in its plan.

An edited file may have such records. A record of an unknown block or round would change which
rounds are due, and a record of an unknown case would add a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from offload.bench.planning import plan_file
from offload.bench.records import journal
from offload.engine.plan import Plan
from offload.engine.record import TEST, WINDOW, Record


def read(folder: Path, plan: Plan | None = None) -> list[Record]:
    """Read the records that are in the plan of a run; warn once about others.

    `plan` is by default the plan in the folder. If this version cannot read it, return all records.
    Raise StorageError if the records cannot be read.
    """
    records = journal.read(folder)
    plan = plan or plan_file.find(folder)
    if plan is None:
        return records
    known = of_plan(plan, records)
    if ignored := len(records) - len(known):
        what = "1 record is" if ignored == 1 else f"{ignored} records are"
        path = journal.newest_file(folder)
        journal.warn_once(f"{path}: {what} ignored: case, block or round is not in the plan")
    return known


def read_if_any(folder: Path, plan: Plan | None = None) -> list[Record]:
    """Read the records that are in the plan of a run, which may have no records yet."""
    return read(folder, plan) if journal.exists(folder) else []


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
    return trial.round is not None and 1 <= trial.round <= plan.rule.counts[-1]
