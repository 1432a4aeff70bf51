"""Advise on what to deploy, printed as text or JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from offload.cli import program
from offload.cli.program import Exit
from offload.cli.runner import write_report
from offload.errors import UserError
from offload.studies import check_disturbance

if TYPE_CHECKING:
    from offload.studies.advise.answer import Answer
    from offload.studies.advise.choice import Question
    from offload.studies.advise.handlers import Handler
    from offload.suites import Case


def advise(
    case: Case,
    question: Question,
    budget_s: float | None,
    style: str,
    code: str,
    on_start: Callable[[Path], object] | None,
    overloads: bool = False,
) -> None:
    """Measure and print the answer; the exit code is not 0 if it does not meet the question."""
    from offload.engine import journal
    from offload.studies.advise import study

    folder = journal.new_run("advise")
    try:
        found = study.advise(
            case, question, folder, program.print_progress, budget_s, on_start, overloads
        )
    except (UserError, KeyboardInterrupt):
        journal.remove_without_records(folder)
        raise
    handler, failure = _handler(code, found)
    show(found, folder, style, handler)
    if not found.is_interrupted:
        write_report(folder)  # after the answer: Ctrl-C must not lose it
    check(found)
    if failure is not None:
        raise failure


def show(found: Answer, folder: Path, style: str, handler: Handler | None = None) -> None:
    """Print an answer."""
    from offload.studies.advise import answer

    is_json = style == "json"
    print(
        answer.as_json(found, handler) if is_json else answer.text(found, folder, handler),
        flush=True,
    )


def check(found: Answer) -> None:
    """Raise the error with the exit code of an answer, if that is not 0."""
    if found.is_interrupted:
        raise Exit("interrupted: the answer is from the measurements until then", code=130)
    check_disturbance(found.disturbed)
    if (unmet := found.unmet) is not None:
        raise unmet


def _handler(code: str, found: Answer) -> tuple[Handler | None, UserError | None]:
    """Return the program of `code`, and why there is none: the answer is printed in any case."""
    from offload.studies.advise import handlers
    from offload.studies.advise.function import Function

    subject = found.subject
    if not code or found.disturbed is not None or not isinstance(subject, Function):
        return None, None
    setup, probe = found.best.setup, subject.probe
    try:
        return handlers.for_setup(
            code,
            probe.task,
            is_coroutine=probe.is_coroutine,
            path=found.case.path,
            strategy=found.strategy,
            sizes=(setup.processes, setup.workers or 1),
            users=found.best.users or 1,
        ), None
    except UserError as error:
        return None, error
