"""advise: which server to deploy, with how many processes, and how many threads in each.

``study.py`` has the steps, from the first call to the choice, ``answer.py`` the answer in words.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from offload import options, resource_limits
from offload.errors import UsageError, UserError
from offload.registry import catalog
from offload.studies import Run, Runner, Study, check_disturbance

if TYPE_CHECKING:
    from offload.documents import Document
    from offload.studies.advise.answer import Answer
    from offload.studies.advise.handlers import Handler
    from offload.suites import Case


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
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

    task: options.Task = ""
    _: KW_ONLY
    args: options.Args = ""
    inputs: options.Inputs = ""
    rate: options.AdviseRate = None
    p99: options.AdviseP99 = None
    memory: options.AdviseMemory = None
    connections: options.AdviseConnections = None
    users: options.AdviseUsers = None
    isolate: options.AdviseIsolate = ""
    overload: options.AdviseOverload = ""
    cpus: options.Cpus = None
    budget: options.AdviseBudget = None
    python: options.Python = ""
    served: options.CaseOptions = options.CaseOptions()
    code: options.Code = ""
    open: options.Open = False
    format: options.Format = "text"


class Advise(Study[Options, "Answer"]):
    """What to deploy; each round depends on those before it, so there is no plan of the cases."""

    group = "Understand"
    options = Options

    def run(self, options: Options, runner: Runner) -> None:
        from offload.engine import journal
        from offload.studies.advise import handlers, study
        from offload.studies.advise.evidence import Question

        handlers.check(options.code)
        show_page = runner.page(options.open)
        case = _case(options)
        question = Question(
            options.rate,
            options.p99,
            options.memory,
            options.connections,
            options.users,
            options.isolate == "yes",
        )
        resource_limits.restrict_to_cpus(options.cpus)
        folder = journal.new_run("advise")
        try:
            found = study.advise(
                case,
                question,
                folder,
                runner.report,
                options.budget,
                show_page,
                options.overload == "yes",
            )
        except (UserError, KeyboardInterrupt):
            journal.remove_without_records(folder)
            raise
        handler, failure = _handler(options.code, found)
        try:
            runner.show(self, folder, replace(found, handler=handler), options.format)
        finally:
            if not found.is_interrupted:
                runner.write_report(folder)  # after the answer: Ctrl-C must not lose it
        if failure is not None:
            raise failure

    def result(self, run: Run) -> Answer:
        from offload.studies.advise import study

        return study.load(run.folder, run.plan, run.records)

    def document(self, result: Answer) -> Document:
        from offload.studies.advise import answer

        return answer.document(result)

    def values(self, result: Answer) -> Any:
        from offload.studies.advise import answer

        return answer.as_dict(result)

    def check(self, result: Answer) -> None:
        if result.is_interrupted:
            raise KeyboardInterrupt("the answer is from the measurements until then")
        check_disturbance(result.disturbed)
        if (unmet := result.unmet) is not None:
            raise unmet


def _case(options: Options) -> Case:
    """Return a case of an application or a task, whose server is arbitrary; raise UsageError."""
    from offload.suites import Case

    users, python = options.users or Case.users, options.python or None
    if not options.served.app:
        options.served.check_unused()
        return Case("threads", _task(options), users=users, python=python, path=options.served.path)
    for name, value in {
        "a function": options.task,
        "args=": options.args,
        "inputs=": options.inputs,
        "code=": options.code,
    }.items():
        if value:
            raise UsageError(f"{name} and app= exclude each other", "leave one of them out")
    application = options.served.case(catalog.servers_of()[0])
    return replace(application, users=users, python=python)


def _task(options: Options) -> str:
    """Return the name of a task with its arguments."""
    from offload.registry.catalog import join_inputs
    from offload.studies.advise import handlers

    task, args, inputs = options.task, options.args, options.inputs
    if not task:
        hint = (
            "use offload advise package.module:function, a task from offload list, or for an "
            "application app=package.module:app request=/path"
        )
        raise UsageError("no function given", hint)
    if args and inputs:
        raise UsageError("args= and inputs= are both given", "use one of them")
    if args and not args.startswith("@"):
        raise UsageError(f"args={args[:100]!r} is not @file.json", "write the arguments to a file")
    if args or inputs:
        task = join_inputs(task, args or inputs)
        handlers.check_arguments(options.code, task)
    return catalog.find_task(task).name


def _handler(code: str, found: Answer) -> tuple[Handler | None, UserError | None]:
    """Return the program of `code`, and why there is none: the answer is printed in any case."""
    from offload.studies.advise import handlers
    from offload.studies.advise.function import Function

    subject = found.subject
    if not code or found.disturbed is not None or not isinstance(subject, Function):
        return None, None
    setup, probe = found.best.setup, subject.probe
    try:
        return handlers.write_handler(
            code,
            probe.task,
            is_coroutine=probe.is_coroutine,
            is_json=probe.is_json,
            path=found.case.path,
            strategy=found.strategy,
            sizes=(setup.processes, setup.workers or 1),
            users=found.best.users or 1,
        ), None
    except UserError as error:
        return None, error


STUDY = Advise()
