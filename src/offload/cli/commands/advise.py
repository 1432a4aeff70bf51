"""The commands advise and predict: the best strategy of a function, and the expected rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from invoke import Context, Exit

from offload.cli import (
    advise_application,
    answers,
    arguments,
    case_options,
    command,
    live_page,
    output,
    usable_cpus,
)
from offload.cli.plan_run import write_report
from offload.errors import UsageError, UserError
from offload.registry import catalog

if TYPE_CHECKING:
    from pathlib import Path

    from offload.bench.advice.answer import Answer
    from offload.reports.advice.handlers import Handler
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
    pythons: str = "",
    path: str = "",
    format: str = "text",  # noqa: A002
    code: str = "",
    app: str = "",
    request: str = "",
    method: str = "",
    body: str = "",
    header: str = "",
    open: bool = False,  # noqa: A002
) -> None:
    """Find the strategy and its size for a function: offload advise shop.pricing:quote.

    Or the server, its size and the cause of the limit for an application of your own:
    offload advise app=shop.web:app request=/quote/7.

    task     a task name, package.module:function or path/to/file.py:function
    args     its arguments: @FILE with JSON, a list or an object of named arguments
    inputs   module:function that yields the arguments of successive calls
    users    concurrent users; default: 25
    cpus     number of CPUs that everything may use, the load tool too; default: all
    memory   maximum memory of the server, such as 512M; default: unlimited
    p99      maximum 99th percentile of response times, such as 50ms; default: unlimited
    budget   seconds until the answer, for a function at least about 80; default: 120
    python   interpreter by its name from offload pythons; default: this one
    pythons  other interpreters, such as 3.13+3.14t: also predict the best strategy in each
    path     a folder from which your own task or application imports
    format   text (default) or json
    code     a framework, such as fastapi or tornado: also print a program that uses the strategy
    app      your own ASGI or WSGI application, served unchanged, instead of a function:
             package.module:name, its factory as package.module:create_app(), or the settings
             module of Django
    request  the path to request, such as /quote/7?size=2; default: /
    method   the request's method; default: GET, with body POST
    body     the request's body, or with @FILE the content of a file
    header   'Name: value' to send, several as 'A: 1; B: 2', or @FILE with one in each line
    open     yes: show the measurements live in a browser: see offload live

    It calls the function alone and in workers, predicts the rate of each strategy, and measures the
    best ones as servers under load. An application is measured under up to eight servers.
    After Ctrl-C the answer is from the measurements until then, and the exit code is 130. Before
    the first server is measured, the answer for a function is a prediction (none in the first
    seconds), and for an application there is none. The exit code is 5 if the function or the
    application fails, and 7 if other processes disturbed the measurement.
    """
    from offload.bench.advice import steps
    from offload.bench.records import journal
    from offload.bench.target import interpreters
    from offload.reports.advice import answer_json, answer_text, handlers

    arguments.one_of("format", format, "text", "json")
    handlers.check(code)
    budget_s = arguments.number("budget", budget, SHORTEST, LONGEST)
    limits = arguments.mebibytes("memory", memory), arguments.response_time("p99", p99)
    sent = case_options.request_of(request, method, body, header)
    on_start = live_page.start_for_run if open else None
    if open:
        live_page.idle_s()  # raises UsageError before anything is measured
    if app:
        functions_only = {"task": task, "args": args, "inputs": inputs, "pythons": pythons}
        advise_application.check_options(code=code, **functions_only)
        served = advise_application.application_case(app, users, python, path, sent)
        usable_cpus.restrict(usable_cpus.parse(cpus))
        advise_application.advise(served, budget_s, format, *limits, on_start)
        return
    if sent is not None:
        raise UsageError("request=, method=, body= and header= are for app=", "leave them out")
    case = _case("advise", task, users, python, path, args, inputs, code)
    others = interpreters.filter_installed(pythons.split("+")) if pythons else []
    count = usable_cpus.parse(cpus)
    usable_cpus.restrict(count)
    folder = journal.new_run("advise")
    try:
        result = steps.advise(
            case, folder, budget_s, output.print_progress, *limits, on_start, others, count
        )
    except (UserError, KeyboardInterrupt):
        journal.remove_without_records(folder)
        raise
    handler, failure = _handler(code, result)
    kept = _keep(folder)
    if format == "json":
        print(answer_json.as_json(result, handler), flush=True)
    else:
        print(answer_text.text(result, kept, handler), flush=True)
    if result.is_interrupted:
        raise Exit(f"interrupted{_resume_hint(kept)}", code=130)
    write_report(folder)  # after the answer: it takes seconds, in which Ctrl-C must not lose it
    answers.raise_without_advice(result)
    if failure is not None:
        raise failure


def _keep(folder: Path) -> Path | None:
    """Return the folder of a run; remove it if the run was interrupted before it had a plan."""
    from offload.bench.planning import plan_file
    from offload.bench.records import journal

    if plan_file.exists(folder):
        return folder
    journal.remove_without_records(folder)
    return None


def _resume_hint(folder: Path | None) -> str:
    """Return the command that measures the remaining rounds of a run; empty if there are none."""
    from offload.bench.planning import plan_file, runs

    if folder is None or not runs.is_due(plan_file.load(folder), folder):
        return ""
    return f": offload resume {folder.name} measures the remaining rounds, without response times"


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
    """Predict the best strategy for a function in 20 s, without a server: offload predict TASK.

    task     a task name, package.module:function or path/to/file.py:function
    args     its arguments: @FILE with JSON, a list or an object of named arguments
    inputs   module:function that yields the arguments of successive calls
    users    concurrent users; default: 25
    python   interpreter by its name from offload pythons; default: this one
    path     a folder from which your own task imports
    format   text (default) or json
    code     a framework, such as fastapi or tornado: also print a program that uses the strategy

    Before the first offload advise on a machine, it uses typical overheads of the strategies.
    """
    from offload.bench.advice import steps
    from offload.reports.advice import answer_json, answer_text, handlers

    arguments.one_of("format", format, "text", "json")
    handlers.check(code)
    case = _case("predict", task, users, python, path, args, inputs, code)
    found = steps.predict(case, output.print_progress)
    handler, failure = _handler(code, found)
    if format == "json":
        print(answer_json.as_json(found, handler), flush=True)
    else:
        print(answer_text.text(found, handler=handler), flush=True)
    if found.is_interrupted:
        raise Exit("interrupted: the prediction is from the calls until then", code=130)
    if failure is not None:
        raise failure


def _handler(code: str, found: Answer) -> tuple[Handler | None, UserError | None]:
    """Return the program of `code`, and why there is none: the answer is printed in any case.

    The file of the function may have been changed during the measurement.
    """
    from offload.reports.advice import handlers

    try:
        return handlers.for_answer(code, found), None
    except UserError as error:
        return None, error


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
    """Return a case of a task; its server is arbitrary."""
    from offload.registry.inputs import join
    from offload.reports.advice import handlers
    from offload.suites import Case

    if not task:
        hint = f"use offload {name} package.module:function, or a task from offload list"
        raise UsageError("no function given", hint)
    if args and inputs:
        raise UsageError("args= and inputs= are both given", "use one of them")
    if args and not args.startswith("@"):
        raise UsageError(f"args={args[:100]!r} is not @file.json", "write the arguments to a file")
    if args or inputs:
        task = join(task, args or inputs)
        handlers.check_arguments(code, task)
    return Case(
        "threads",
        catalog.find_task(task).name,
        users=arguments.whole_number("users", users, 1, 1000),
        python=python or None,
        path=arguments.folder("path", path),
    )
