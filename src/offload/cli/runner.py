"""What the program does for the command of a study: it measures, prints the answer, and reports."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from offload.cli import output, plan_run, run_reports
from offload.studies import Run, Study

if TYPE_CHECKING:
    from offload.engine.plan import Plan

R = TypeVar("R")


class TerminalRunner:
    """Runs the commands of studies for a user at a terminal; see `studies.Runner`."""

    def measure(self, plan: Plan, is_opened: bool) -> Run:
        """Measure a plan in a new folder, with its live page in a browser if `is_opened`."""
        folder, records = plan_run.start_run(plan, is_opened)
        return Run(folder, plan, records)

    def answer(self, study: Study[Any, Any], run: Run, form: str) -> None:
        """Write the report of a run and print its answer; raise the error of its exit code."""
        study.complete(run, output.print_progress)
        run_reports.write_report(run.folder)
        self.show(study, run.folder, study.result(run), form)

    def show(self, study: Study[Any, R], folder: Path, result: R, form: str) -> None:
        """Print the result of a run in a folder; raise the error of its exit code."""
        text = study.render(folder, result, form)
        print(text)
        study.export(result)
        study.check(result)

    def report(self, line: str) -> None:
        """Print a line about a step to stderr."""
        print(line, file=sys.stderr, flush=True)
