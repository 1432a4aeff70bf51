"""The runs of a suite: select the newest complete one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from offload.bench.planning import plan_file, planned_records
from offload.bench.records import journal
from offload.engine.plan import Plan
from offload.engine.record import Record
from offload.errors import StorageError


@dataclass(frozen=True)
class Run:
    """One run with its records of a suite; `lack` is the reason if it is incomplete, else None."""

    folder: Path
    records: Sequence[Record]
    lack: str | None

    @property
    def has_rate(self) -> bool:
        """Whether any record has a rate."""
        return any(record.result.rate for record in self.records)


def newest_of(suite: str) -> tuple[Run | None, list[str]]:
    """Return the run that represents a suite, and why it or newer runs are incomplete.

    It is the newest run with figures and a record of every planned case; if there is none, the
    newest run with figures; else the newest run. None if there is no run.
    """
    found: list[Run] = []
    for folder in sorted(_folders(suite), key=lambda path: path.name, reverse=True):
        found.append(read(folder, suite))
        if found[-1].lack is None:
            break
    if not found:
        return None, []
    best = min(found, key=lambda run: (run.lack is not None, not run.has_rate))  # newest of equals
    newer = found[: found.index(best) + 1]
    return best, [f"{run.folder.name} {run.lack}" for run in newer if run.lack is not None]


def newest_unfinished() -> Path:
    """Find the newest run with due rounds or long runs; raise StorageError if there is none."""
    planned = (path.parent for path in journal.RESULTS.glob(f"*/{plan_file.FILE}"))
    for folder in sorted(planned, key=lambda path: path.name, reverse=True):
        if journal.is_example(folder) or not plan_file.exists(folder):
            continue
        if is_due(plan_file.load(folder), folder):
            return folder
    raise StorageError(
        f"no unfinished run in {journal.RESULTS}", "start one by offload run_all_load_tests"
    )


def is_due(planned: Plan, folder: Path) -> bool:
    """Whether a round or a long run of a plan is missing from its folder."""
    return planned.next_step(planned_records.read_if_any(folder, planned)) is not None


def find(run: str) -> Path:
    """Find a run by its folder's name; it may have a plan and no records yet."""
    folder = journal.RESULTS / run
    is_planned = journal.is_name(run) and journal.is_file(folder / plan_file.FILE)
    return folder if is_planned else journal.named(run)


def read(folder: Path, suite: str) -> Run:
    """Read a run's records of a suite."""
    records = [record for record in planned_records.read(folder) if record.trial.suite == suite]
    run = Run(folder, records, None)
    if not _is_finished(run):
        return Run(folder, records, f"is unfinished: offload resume {folder.name}")
    return run if run.has_rate else Run(folder, records, "has no figures")


def _folders(suite: str) -> list[Path]:
    name = re.compile(rf"\d{{8}}-\d{{6}}-{re.escape(suite)}(-\d+)?")
    return [folder for folder in journal.folders() if name.fullmatch(folder.name)]


def _is_finished(run: Run) -> bool:
    """Whether every case of a run's plan has a record; a run without a plan is finished."""
    try:
        planned = plan_file.load(run.folder).cases
    except StorageError:
        return True
    return {case.key for case in planned} <= {record.key for record in run.records}
