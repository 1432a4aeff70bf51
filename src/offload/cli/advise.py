"""Advise: which strategy to use for a function, how many workers, and what they give."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from invoke import Context, Exit

from offload.cli import arguments, command
from offload.errors import DisturbedError, UsageError
from offload.registry import catalog

if TYPE_CHECKING:
    from offload.suites import Case

SHORTEST, LONGEST = 30.0, 3600.0  # s of a budget
FEWEST_ROUNDS_S = 20.0  # s of measuring that an answer needs at least
LATENCY_S = 20.0  # s that the response times of the chosen one may take; a guess


@command("Understand")
def advise(
    context: Context,
    task: str = "",
    users: str = "25",
    budget: str = "120",
    python: str = "",
    path: str = "",
    format: str = "text",  # noqa: A002
    code: str = "",
) -> None:
    """Find the strategy and its size for a function: fab advise:shop.pricing:quote.

    task     a task name, package.module:function or path/to/file.py:function
    users    concurrent users; default: 25
    budget   seconds until the answer; default: 120
    python   interpreter by its name from fab pythons; default: this one
    path     a folder from which your own task imports
    format   text (default) or json
    code     also print a program that serves it so: a framework, such as fastapi or tornado

    It calls the function alone and in workers, predicts the rate of each strategy, and measures the
    best ones as servers under load. Ctrl-C ends it with what is known. The exit code is 5 if the
    function fails, and 7 if other processes disturbed the measurement.
    """
    from offload.bench.advice import answer, ask, candidates
    from offload.bench.records import journal
    from offload.bench.records import plan as plans
    from offload.reports.advice import answer_json, answer_text, handlers

    arguments.one_of("format", format, "text", "json")
    handlers.check(code)
    started = time.monotonic()
    budget_s = arguments.number("budget", budget, SHORTEST, LONGEST)
    case = _case("advise", task, users, python, path)
    asked = ask.question(case, _report)
    model = asked.model
    left_s = budget_s - (time.monotonic() - started) - LATENCY_S
    planned = candidates.plan(
        model, case, candidates.candidates(model), max(FEWEST_ROUNDS_S, left_s)
    )
    folder = journal.new_run(planned.suite)
    plans.save(planned, folder)
    answer.save(asked, folder)
    found = ask.measure(asked, planned, folder, _report)
    handler = handlers.for_answer(code, found)
    if format == "json":
        print(answer_json.as_json(found, handler))
    else:
        print(answer_text.text(found, folder, handler))
    if found.is_interrupted:
        raise Exit(f"interrupted: fab resume:{folder.name} measures the rest", code=130)
    if found.disturbed is not None:
        raise DisturbedError("no verdict", found.disturbed.remedy)


@command("Understand")
def predict(
    context: Context,
    task: str = "",
    users: str = "25",
    python: str = "",
    path: str = "",
    format: str = "text",  # noqa: A002
    code: str = "",
) -> None:
    """Predict the best strategy for a function in 20 s, without a server: fab predict:TASK.

    task     a task name, package.module:function or path/to/file.py:function
    users    concurrent users; default: 25
    python   interpreter by its name from fab pythons; default: this one
    path     a folder from which your own task imports
    format   text (default) or json
    code     also print a program that serves it so: a framework, such as fastapi or tornado
    """
    from offload.bench.advice import answer, ask
    from offload.reports.advice import answer_json, answer_text, handlers

    arguments.one_of("format", format, "text", "json")
    handlers.check(code)
    case = _case("predict", task, users, python, path)
    found = answer.predicted(ask.question(case, _report), case)
    handler = handlers.for_answer(code, found)
    if format == "json":
        print(answer_json.as_json(found, handler))
    else:
        print(answer_text.text(found, handler=handler))


def _case(name: str, task: str, users: str, python: str, path: str) -> Case:
    """Return the case of a task, on any server."""
    from offload.suites import Case

    if not task:
        hint = f"use fab {name}:package.module:function, or a task from fab list"
        raise UsageError("no function given", hint)
    return Case(
        "threads",
        catalog.find_task(task).name,
        users=arguments.whole_number("users", users, 1, 1000),
        python=python or None,
        path=arguments.folder("path", path),
    )


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
