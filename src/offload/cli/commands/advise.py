"""The commands advise and predict: what to deploy, and the expected rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from invoke import Context, Exit

from offload.cli import (
    advise_application,
    arguments,
    case_options,
    command,
    live_page,
    output,
    usable_cpus,
)
from offload.errors import UsageError, UserError
from offload.registry import catalog

if TYPE_CHECKING:
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
    rate: str = "",
    p99: str = "",
    memory: str = "",
    connections: str = "",
    users: str = "",
    isolate: str = "",
    cpus: str = "",
    budget: str = "",
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
    """Find what to deploy for a function: offload advise shop.pricing:quote.

    Or the server, its size and the cause of the limit for an application of your own:
    offload advise app=shop.web:app request=/quote/7.

    task         a task name, package.module:function or path/to/file.py:function
    args         its arguments: @FILE with JSON, a list or an object of named arguments
    inputs       module:function that yields the arguments of successive calls
    rate         requests/s that must be carried, such as 300: the cheapest set-up that carries them
                 with a reserve of 20 %, shown by a load of 20 s
    p99          maximum 99th percentile of response times, such as 50ms; default: unlimited
    memory       maximum memory of the server, such as 512M; default: unlimited
    connections  maximum number of calls in progress, such as 16 connections to a database
    users        concurrent users who wait for each response; default: as many as the server needs
    isolate      yes: a call that crashes or hangs must not affect others
    cpus         number of CPUs that everything may use, the load tool too; default: all
    budget       seconds until the answer; default: 90, or 180 if a call takes more than 50 ms
    python       interpreter by its name from offload pythons; default: this one
    pythons      gone: repeat the command with python= for each interpreter
    path         a folder from which your own task or application imports
    format       text (default) or json
    code         a framework, such as fastapi or tornado: also print a program for the set-up
    app          your own ASGI or WSGI application, served unchanged, instead of a function:
                 package.module:name, its factory as package.module:create_app(), or the settings
                 module of Django
    request      the path to request, such as /quote/7?size=2; default: /
    method       the request's method; default: GET, with body POST
    body         the request's body, or with @FILE the content of a file
    header       'Name: value' to send, several as 'A: 1; B: 2', or @FILE with one in each line
    open         yes: show the measurements live in a browser: see offload live

    It calls the function alone, then measures up to five set-ups (processes x threads) and
    neighbours of the best one in rounds, and the response times of the best two at the same rates.
    The answer names the one with the least memory that carries what is required, or at least 90 %
    of the highest capacity. An application is measured under up to eight servers.
    After Ctrl-C the answer is from the measurements until then, and the exit code is 130. The exit
    code is 5 if the function or the application fails, and 7 if other processes disturbed the
    measurement.
    """
    from offload.cli import advise_function
    from offload.reports.advice import handlers

    arguments.one_of("format", format, "text", "json")
    handlers.check(code)
    budget_s = arguments.number("budget", budget, SHORTEST, LONGEST) if budget else None
    limits = arguments.mebibytes("memory", memory), arguments.response_time("p99", p99)
    sent = case_options.request_of(request, method, body, header)
    on_start = live_page.start_for_run if open else None
    if open:
        live_page.idle_s()  # raises UsageError before anything is measured
    if pythons:
        raise UsageError("pythons= is gone", "repeat the command with python= for each interpreter")
    if app:
        functions_only = {"task": task, "args": args, "inputs": inputs, "rate": rate}
        functions_only |= {"connections": connections, "isolate": isolate}
        advise_application.check_options(code=code, **functions_only)
        served = advise_application.application_case(app, users or "25", python, path, sent)
        usable_cpus.restrict(usable_cpus.parse(cpus))
        advise_application.advise(served, budget_s or 120.0, format, *limits, on_start)
        return
    if sent is not None:
        raise UsageError("request=, method=, body= and header= are for app=", "leave them out")
    question = advise_function.question(
        rate=rate,
        p99_s=limits[1],
        memory_mib=limits[0],
        connections=connections,
        users=users,
        isolate=isolate,
    )
    case = _case("advise", task, users or "25", python, path, args, inputs, code)
    usable_cpus.restrict(usable_cpus.parse(cpus))
    advise_function.advise(case, question, budget_s, format, code, on_start)


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
