"""Advise on a user's application: the server, its size, and the causes of its limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from offload.cli import answers, output
from offload.cli.options import CaseOptions
from offload.cli.plan_run import write_report
from offload.cli.program import Exit
from offload.errors import UsageError, UserError

if TYPE_CHECKING:
    from offload.bench.advice.application.answer import ApplicationAnswer
    from offload.suites import Case


def check_options(**options: str) -> None:
    """Raise UsageError for an option that is only valid for functions."""
    for name, value in options.items():
        if value:
            what = "a function" if name == "task" else f"{name}="
            raise UsageError(f"{what} and app= exclude each other", "leave one of them out")


def application_case(served: CaseOptions, users: int, python: str) -> Case:
    """Return a case of an application; its server is arbitrary."""
    from offload.registry import catalog

    return replace(served.case(catalog.servers_of()[0]), users=users, python=python or None)


def advise(
    case: Case,
    budget_s: float,
    style: str,
    memory_mib: float | None,
    p99_s: float | None,
    on_start: Callable[[Path], object] | None,
) -> None:
    """Measure and print the answer; the exit code is 130 after Ctrl-C, and 7 without a verdict.

    `on_start` is called with the folder of the run before anything is measured.
    """
    from offload.bench.advice.application import steps
    from offload.bench.records import journal

    question = steps.inspect_application(case, memory_mib, p99_s)
    folder = journal.new_run("advise")
    try:
        found = steps.advise(case, question, folder, budget_s, output.print_progress, on_start)
    except (UserError, KeyboardInterrupt):
        journal.remove_without_records(folder)
        raise
    _print(found, folder, style)
    if not found.is_interrupted:
        write_report(folder)  # after the answer: Ctrl-C must not lose it
    _check_answer(found)


def show(found: ApplicationAnswer, folder: Path, style: str) -> None:
    """Print an answer; the exit code is 130 if it was interrupted, and 7 without a verdict."""
    _print(found, folder, style)
    _check_answer(found)


def _print(found: ApplicationAnswer, folder: Path, style: str) -> None:
    from offload.reports.advice.application import answer_json, answer_text

    if style == "json":
        print(answer_json.as_json(found), flush=True)
    else:
        print(answer_text.text(found, folder), flush=True)


def _check_answer(found: ApplicationAnswer) -> None:
    """Raise an error with the exit code of an answer, if that is not 0."""
    if found.is_interrupted:
        raise Exit("interrupted: the answer is from the measurements until then", code=130)
    answers.check_disturbance(found.disturbed)
