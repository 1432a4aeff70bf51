"""The commands advise and predict: the best strategy of a function, and the expected rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offload.cli import (
    advise_application,
    live_page,
    options,
    output,
    usable_cpus,
)
from offload.cli.program import Exit, command
from offload.errors import UsageError, UserError
from offload.registry import catalog

if TYPE_CHECKING:
    from offload.bench.advice.answer import Answer
    from offload.reports.advice.handlers import Handler
    from offload.suites import Case


@command("Understand")
def advise(
    task: options.Task = "",
    *,
    args: options.Args = "",
    inputs: options.Inputs = "",
    rate: options.AdviseRate = None,
    p99: options.AdviseP99 = None,
    memory: options.AdviseMemory = None,
    connections: options.AdviseConnections = None,
    users: options.AdviseUsers = None,
    isolate: options.AdviseIsolate = "",
    cpus: options.Cpus = None,
    budget: options.AdviseBudget = None,
    python: options.Python = "",
    pythons: options.AdvisePythons = "",
    served: options.CaseOptions = options.CaseOptions(),
    code: options.Code = "",
    open: options.Open = False,
    format: options.Format = "text",
) -> None:
    """Find what to deploy for a function, or the server for your application.

    It calls the function alone, then measures up to five set-ups (processes x threads) and
    neighbours of the best one in rounds, and the response times of the best two at the same rates.
    The answer names the one with the least memory that carries what is required, or at least 90 %
    of the highest capacity. For an application it finds the server, its size and the cause of the
    limit, with up to eight servers.
    After Ctrl-C the answer is from the measurements until then, and the exit code is 130. The exit
    code is 5 if the function or the application fails, and 7 if other processes disturbed the
    measurement.

    Examples:
      offload advise shop.pricing:quote
      offload advise path/to/shop.py:quote rate=300 p99=100ms memory=512M
      offload advise app=shop.web:app request=/quote/7
    """
    from offload.cli import advise_function
    from offload.reports.advice import handlers
    from offload.studies.advise.choice import Question
    from offload.suites import Case

    handlers.check(code)
    on_start = live_page.start_for_run if open else None
    if open:
        live_page.idle_s()  # raises UsageError before anything is measured
    if pythons:
        raise UsageError("pythons= is gone", "repeat the command with python= for each interpreter")
    if served.app:
        functions_only = {"task": task, "args": args, "inputs": inputs, "isolate": isolate}
        functions_only |= {"rate": str(rate or ""), "connections": str(connections or "")}
        advise_application.check_options(code=code, **functions_only)
        application = advise_application.application_case(served, users or Case.users, python)
        usable_cpus.restrict(cpus)
        advise_application.advise(application, budget or 120.0, format, memory, p99, on_start)
        return
    served.check_unused("are for app=")
    question = Question(rate, p99, memory, connections, users, isolate == "yes")
    case = _case("advise", task, users or Case.users, python, served.path, args, inputs, code)
    usable_cpus.restrict(cpus)
    advise_function.advise(case, question, budget, format, code, on_start)


@command("Understand")
def predict(
    task: options.Task = "",
    *,
    args: options.Args = "",
    inputs: options.Inputs = "",
    users: options.FewUsers = 25,
    python: options.Python = "",
    path: options.Path = None,
    code: options.Code = "",
    format: options.Format = "text",
) -> None:
    """Predict the best strategy for a function in 20 s, without a server.

    Before the first offload advise on a machine, it uses typical overheads of the strategies.

    Example: offload predict path/to/shop.py:quote
    """
    from offload.bench.advice import steps
    from offload.reports.advice import answer_json, answer_text, handlers

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
    users: int,
    python: str,
    path: str | None,
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
        users=users,
        python=python or None,
        path=path,
    )
