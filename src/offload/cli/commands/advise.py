"""The command advise: what to deploy for a function or an application."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from offload import options, resource_limits
from offload.cli import live_page
from offload.cli.program import command
from offload.errors import UsageError
from offload.registry import catalog

if TYPE_CHECKING:
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
    overload: options.AdviseOverload = "",
    cpus: options.Cpus = None,
    budget: options.AdviseBudget = None,
    python: options.Python = "",
    served: options.CaseOptions = options.CaseOptions(),
    code: options.Code = "",
    open: options.Open = False,
    format: options.Format = "text",
) -> None:
    """Find what to deploy for a function, or the server for your application.

    It calls the function alone, then measures up to five set-ups (processes x threads) and
    neighbours of the best one in rounds, and the response times of the best two at the same rates.
    The answer names the one with the least memory that carries what is required, or at least 90 %
    of the highest capacity. Of an application, one process is measured instead of calls alone; the
    answer also names the cause of its limit.
    After Ctrl-C the answer is from the measurements until then, and the exit code is 130. The exit
    code is 5 if the function or the application fails, or if no set-up meets what is required, and
    7 if other processes disturbed the measurement.

    Examples:
      offload advise shop.pricing:quote
      offload advise path/to/shop.py:quote rate=300 p99=100ms memory=512M
      offload advise app=shop.web:app request=/quote/7
    """
    from offload.cli import advice
    from offload.studies.advise import handlers
    from offload.studies.advise.choice import Question
    from offload.suites import Case

    handlers.check(code)
    on_start = live_page.start_for_run if open else None
    if open:
        live_page.idle_s()  # raises UsageError before anything is measured
    if served.app:
        for name, value in {
            "a function": task,
            "args=": args,
            "inputs=": inputs,
            "code=": code,
        }.items():
            if value:
                raise UsageError(f"{name} and app= exclude each other", "leave one of them out")
        application = served.case(catalog.servers_of()[0])
        case = replace(application, users=users or Case.users, python=python or None)
    else:
        served.check_unused("are for app=")
        case = _case(task, users or Case.users, python, served.path, args, inputs, code)
    question = Question(rate, p99, memory, connections, users, isolate == "yes")
    resource_limits.restrict_to_cpus(cpus)
    advice.advise(case, question, budget, format, code, on_start, overload == "yes")


def _case(
    task: str,
    users: int,
    python: str,
    path: str | None,
    args: str,
    inputs: str,
    code: str,
) -> Case:
    """Return a case of a task; its server is arbitrary."""
    from offload.registry.catalog import join_inputs
    from offload.studies.advise import handlers
    from offload.suites import Case

    if not task:
        hint = "use offload advise package.module:function, or a task from offload list"
        raise UsageError("no function given", hint)
    if args and inputs:
        raise UsageError("args= and inputs= are both given", "use one of them")
    if args and not args.startswith("@"):
        raise UsageError(f"args={args[:100]!r} is not @file.json", "write the arguments to a file")
    if args or inputs:
        task = join_inputs(task, args or inputs)
        handlers.check_arguments(code, task)
    return Case(
        "threads",
        catalog.find_task(task).name,
        users=users,
        python=python or None,
        path=path,
    )
