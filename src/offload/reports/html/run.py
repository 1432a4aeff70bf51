"""A run that is reported: its records, its plan, and the rows that are compared with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from offload.bench.claims import suite_verdicts
from offload.bench.claims.evaluate import ClaimVerdict
from offload.bench.planning import plan as plans
from offload.bench.planning.plan import Plan
from offload.bench.records import journal
from offload.bench.records.record import Record
from offload.errors import StorageError
from offload.registry import catalog
from offload.reports import provenance, results_json
from offload.reports.rows import Row, rows


@dataclass(frozen=True)
class MeasuredRun:
    """The records of a run; `plan` is None if it has none, or one of another version."""

    folder: Path
    records: Sequence[Record]
    plan: Plan | None

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return self.folder.name

    @property
    def suite(self) -> str | None:
        """The suite of the run, or the command that measured it, such as compare."""
        if self.plan is not None:
            return self.plan.suite
        return next((record.trial.suite for record in self.records if record.trial.suite), None)

    @property
    def suites(self) -> list[str]:
        """The published suites that the run measured."""
        found = dict.fromkeys(r.trial.suite for r in self.records if r.trial.suite)
        return [suite for suite in found if suite in catalog.suites()]

    @cached_property
    def rows(self) -> list[Row]:
        """One row for each case."""
        return rows(self.records)

    @cached_property
    def groups(self) -> list[list[Row]]:
        """The rows of each machine, Python and upstream: a table never mixes different ones."""
        return provenance.group_by_provenance(
            self.rows, lambda row: provenance.provenance_of(row.first)
        )

    def group_name(self, group: Sequence[Row]) -> str:
        """Return what the rows of a group have in common, for the captions of a page's tables."""
        if len(self.groups) < 2:
            return ""
        python = provenance.python_after_load(group[0].first)
        number = next(n for n, own in enumerate(self.groups, start=1) if own is group)
        return f" ({number}: Python {python})"

    @cached_property
    def claims(self) -> Mapping[str, Sequence[ClaimVerdict]]:
        """The verdicts on the published claims of each suite; without suites that have none."""
        found = {
            suite: suite_verdicts.evaluate_suite(suite, self.records, self.name)
            for suite in self.suites
        }
        return {suite: own for suite, own in found.items() if own}

    @cached_property
    def results(self) -> Mapping[str, object]:
        """The results as the JSON report has them."""
        return results_json.as_dict(self.records)


def read(folder: Path) -> MeasuredRun:
    """Read a run; raise StorageError if it has no record."""
    records = journal.read(folder)
    if not records:
        raise StorageError(
            f"{folder.name} has no readable record", "choose another run by report:RUN"
        )
    try:
        plan = plans.load(folder) if plans.exists(folder) else None
    except StorageError:  # of another version: its figures are known from the records
        plan = None
    return MeasuredRun(folder, records, plan)
