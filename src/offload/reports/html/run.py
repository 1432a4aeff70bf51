"""The run of a report: its records, its plan, and its rows in groups that are comparable."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from offload.bench.claims import suite_verdicts
from offload.bench.claims.evaluate import ClaimVerdict
from offload.documents import Document, results_files
from offload.documents.rows import Row, comparable_groups, python_after_load, rows
from offload.engine import journal
from offload.engine.plan import Plan
from offload.engine.record import Record
from offload.errors import StorageError
from offload.registry import catalog


@dataclass(frozen=True)
class MeasuredRun:
    """The records of a run; `plan` is None if it is missing or was written by another version.

    `document` is the answer of its study; None if it has none.
    """

    folder: Path
    records: Sequence[Record]
    plan: Plan | None
    document: Document | None = None

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
    def command(self) -> str | None:
        """The command that started the run, for a shell; None if it is unknown."""
        argv = journal.load_argv(self.folder)
        return None if argv is None else shlex.join(["offload", *argv])

    @cached_property
    def rows(self) -> list[Row]:
        """One row for each case."""
        return rows(self.records)

    @cached_property
    def groups(self) -> list[list[Row]]:
        """The rows, grouped by machine, Python and upstream: a table shows only one group."""
        return comparable_groups(self.rows)

    def group_name(self, group: Sequence[Row]) -> str:
        """Return the name of a group for captions; empty if the run has only one group."""
        if len(self.groups) < 2:
            return ""
        python = python_after_load(group[0].first)
        number = next(n for n, own in enumerate(self.groups, start=1) if own is group)
        return f" ({number}: Python {python})"

    @cached_property
    def claims(self) -> Mapping[str, Sequence[ClaimVerdict]]:
        """The verdicts on published claims, by suite; suites without claims are left out."""
        found = {
            suite: suite_verdicts.evaluate_suite(suite, self.records, self.name)
            for suite in self.suites
        }
        return {suite: own for suite, own in found.items() if own}

    @cached_property
    def results(self) -> Mapping[str, object]:
        """The results as the JSON report has them."""
        return results_files.run_values(self.records)


def read(folder: Path, document: Document | None = None) -> MeasuredRun:
    """Read a run; raise StorageError if it has no record."""
    records = journal.read_planned(folder)
    if not records:
        raise StorageError(
            f"{folder.name} has no readable record", "choose another run by report:RUN"
        )
    plan = journal.find_plan(folder)
    return MeasuredRun(folder, records, plan, document)
