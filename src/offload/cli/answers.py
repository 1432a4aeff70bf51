"""Print the answer of a finished run of another kind than a study: of a suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from offload.cli import runner
from offload.cli.runner import TerminalRunner
from offload.studies import Run, studies

if TYPE_CHECKING:
    from offload.engine.plan import Plan
    from offload.engine.record import Record


def print_answer(plan: Plan, folder: Path, records: Sequence[Record], format: str) -> None:  # noqa: A002
    """Print the answer of a finished run as text or JSON; raise the error of its exit code."""
    run = Run(folder, plan, records)
    if (study := studies().get(plan.suite)) is not None:
        TerminalRunner().answer(study, run, format)
        return
    runner.write_report(folder)
    runner.show_results(records, format)
