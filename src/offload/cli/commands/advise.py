"""Advise: which strategy to use for a function, how many workers, and what they give."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from invoke import Context, Exit

from offload.cli import arguments, command
from offload.errors import DisturbedError, UsageError, UserError
from offload.registry import catalog

if TYPE_CHECKING:
    from offload.suites import Case

SHORTEST, LONGEST = 30.0, 3600.0  # s of a budget


@command("Understand")
def advise(
    context: Context,
    task: str = "",
    args: str = "",
    inputs: str = "",
    users: str = "25",
    cpus: str = "",
    memory: str = "",
    p99: str = "",
    budget: str = "120",
    python: str = "",
    path: str = "",
    format: str = "text",  # noqa: A002
    code: str = "",
) -> None:
    """Find the strategy and its size for a function: fab advise:shop.pricing:quote.

    task     a task name, package.module:function or path/to/file.py:function
    args     its arguments, as @file.json: a list, or an object of named ones
    inputs   module:function that yields the arguments of successive calls
    users    concurrent users; default: 25
    cpus     number of CPUs that everything may use, the load tool too; default: all
    memory   most memory of the server, such as 512M; default: unlimited
    p99      longest 99th percentile of response times, such as 50ms; default: unlimited
    budget   seconds until the answer; default: 120
    python   interpreter by its name from fab pythons; default: this one
    path     a folder from which your own task imports
    format   text (default) or json
    code     also print a program that serves it so: a framework, such as fastapi or tornado

    It calls the function alone and in workers, predicts the rate of each strategy, and measures the
    best ones as servers under load. Ctrl-C ends it with what is known. The exit code is 5 if the
    function fails, and 7 if other processes disturbed the measurement.
    """
    from offload.bench.advice import steps
    from offload.bench.records import journal
    from offload.reports.advice import answer_json, answer_text, handlers

    arguments.one_of("format", format, "text", "json")
    handlers.check(code)
    budget_s = arguments.number("budget", budget, SHORTEST, LONGEST)
    limits = arguments.mebibytes("memory", memory), arguments.response_time("p99", p99)
    case = _case("advise", task, users, python, path, args, inputs, code)
    _use_cpus(cpus)
    folder = journal.new_run("advise")
    try:
        result = steps.advise(case, folder, budget_s, _report, *limits)
    except (UserError, KeyboardInterrupt):
        _remove_if_empty(folder)
        raise
    handler = handlers.for_answer(code, result)
    if format == "json":
        print(answer_json.as_json(result, handler))
    else:
        print(answer_text.text(result, folder, handler))
    if result.is_interrupted:
        raise Exit(f"interrupted: fab resume:{folder.name} measures the rest", code=130)
    if result.disturbed is not None:
        raise DisturbedError("no verdict", result.disturbed.remedy)


@command("Understand")
def predict(
    context: Context,
    task: str = "",
    args: str = "",
    inputs: str = "",
    users: str = "25",
    python: str = "",
    path: str = "",
    format: str = "text",  # noqa: A002
    code: str = "",
) -> None:
    """Predict the best strategy for a function in 20 s, without a server: fab predict:TASK.

    task     a task name, package.module:function or path/to/file.py:function
    args     its arguments, as @file.json: a list, or an object of named ones
    inputs   module:function that yields the arguments of successive calls
    users    concurrent users; default: 25
    python   interpreter by its name from fab pythons; default: this one
    path     a folder from which your own task imports
    format   text (default) or json
    code     also print a program that serves it so: a framework, such as fastapi or tornado
    """
    from offload.bench.advice import answer, steps
    from offload.reports.advice import answer_json, answer_text, handlers

    arguments.one_of("format", format, "text", "json")
    handlers.check(code)
    case = _case("predict", task, users, python, path, args, inputs, code)
    found = answer.predicted(steps.prepare(case, _report), case)
    handler = handlers.for_answer(code, found)
    if format == "json":
        print(answer_json.as_json(found, handler))
    else:
        print(answer_text.text(found, handler=handler))


def _case(
    name: str,
    task: str,
    users: str,
    python: str,
    path: str,
    args: str,
    inputs: str,
    code: str,
) -> Case:
    """Return the case of a task, on any server."""
    from offload.registry.inputs import join
    from offload.suites import Case

    if not task:
        hint = f"use fab {name}:package.module:function, or a task from fab list"
        raise UsageError("no function given", hint)
    if args and inputs:
        raise UsageError("args= and inputs= are both given", "use one of them")
    if args and not args.startswith("@"):
        raise UsageError(f"args={args[:100]!r} is not @file.json", "write the arguments to a file")
    if (args or inputs) and code:
        raise UsageError("code= needs a function without arguments", "leave out code=")
    if args or inputs:
        task = join(task, args or inputs)
    return Case(
        "threads",
        catalog.find_task(task).name,
        users=arguments.whole_number("users", users, 1, 1000),
        python=python or None,
        path=arguments.folder("path", path),
    )


def _use_cpus(text: str) -> None:
    """Restrict this process, and all that it starts, to a number of CPUs."""
    if not text:
        return
    usable = sorted(os.sched_getaffinity(0))
    count = arguments.whole_number("cpus", text, 1, len(usable))
    os.sched_setaffinity(0, usable[:count])


def _remove_if_empty(folder: Path) -> None:
    """Remove the folder of a run that has not started."""
    with suppress(OSError):
        folder.rmdir()


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
