"""The command check_advice: compare answers of advise with exhaustive measurements."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from lab import corpus
from lab.commands import command
from offload import cores
from offload.cli import arguments, output
from offload.cli.plan_run import continue_run
from offload.cli.program import Exit
from offload.errors import GateError, MachineError, UsageError

if TYPE_CHECKING:
    from offload.bench.planning.plan import Plan

USERS = 25
TUNING, SHORT = "tuning", "short"


@command
def check_advice(
    fold: str = "",
    functions: str = "",
    budget: str = "120",
    repeat: str = "1",
    format: str = "text",  # noqa: A002
) -> None:
    """Check the advice on a fold of functions, in two hours: python -m lab check_advice 1.

    fold       1 to 5; tuning: functions with which the model may be tuned; or short: those of
               them whose calls are short, to check with repeat=5 that answers agree
    functions  maximum number of functions; default: all
    budget     seconds until each answer; default: 120
    repeat     number of answers on each function, to check that they agree; default: 1
    format     text (default) or rst

    It measures every strategy at every size for each function, and runs advise on it. Then it
    measures each recommendation again, together with the best size, and its response times. If the
    answers to a function disagree, their strategies are measured again in more rounds. After an
    interruption, the same command continues the measurements in results/advice-FOLD.
    The exit code is 1 if a requirement is not met.
    """
    from lab.advice import (
        answers,
        confirmation,
        disagreement,
        evaluation,
        judgement_text,
        recorded_answer,
        truth,
    )
    from offload.bench.planning import plan_file
    from offload.bench.records import journal

    arguments.one_of("format", format, "text", "rst")
    budget_s = arguments.number("budget", budget, 30, 3600)
    times = arguments.whole_number("repeat", repeat, 1, 100)
    tasks = _tasks(fold)
    if functions:
        tasks = tasks[: arguments.whole_number("functions", functions, 1, 1000)]
    _check_packages(tasks)
    journal.check_writable()
    folder = journal.lasting_run(f"advice-{fold}")
    if not plan_file.exists(folder):
        plan_file.save(truth.plan(tasks, cores.available(), USERS), folder)
    planned = plan_file.load(folder)
    _check_same(planned, tasks, folder)
    records = continue_run(planned, folder, is_reported=False)
    truths = {found.task: found for found in truth.of_records(planned, records)}
    try:
        every_answer = answers.complete_answers(
            tasks, folder, USERS, budget_s, output.print_progress, times
        )
        all_answers = [*every_answer]
        disagreement.measure(all_answers, USERS, folder / evaluation.DISAGREEMENT)
        first = recorded_answer.first_answers(all_answers)
        again = folder / evaluation.CONFIRMATION
        confirmation.measure(truths, first, USERS, again, output.print_progress)
    except KeyboardInterrupt:
        options = f"functions={len(tasks)} repeat={times} budget={budget_s:g}"
        what = f"interrupted: continue with python -m lab check_advice {fold} {options}"
        raise Exit(what, code=130) from None
    found = evaluation.read(folder)
    print(judgement_text.text(found, "rst" if format == "rst" else "simple"))
    missed = [each.name for each in found.requirements if each.passed is False]
    if missed:
        raise GateError(f"requirements not met: {', '.join(missed)}")


def _tasks(fold: str) -> list[str]:
    folds = {str(number): own for number, own in enumerate(corpus.FOLDS, start=1)}
    known = {**folds, TUNING: corpus.tuning_set(), SHORT: corpus.SHORT_CALLS}
    if fold not in known:
        raise UsageError(f"fold={fold!r} is unknown", f"choose from {', '.join(known)}")
    return [corpus.task_name(function) for function in known[fold]]


def _check_packages(tasks: list[str]) -> None:
    """Raise MachineError if a task needs a package that is not installed."""
    known = corpus.entries()
    needed = {package for task in tasks for package in known[task].packages}
    if missing := sorted(package for package in needed if find_spec(package) is None):
        what = f"these functions need {', '.join(missing)}"
        raise MachineError(what, "make lab")


def _check_same(planned: Plan, tasks: list[str], folder: Path) -> None:
    """Raise UsageError if the run was planned for other functions."""
    if {case.task for case in planned.cases} != {*tasks}:
        what = f"{folder} has measurements of other functions"
        raise UsageError(what, "use the same functions=, or move that folder away")
