"""The commands that repeat the measurement of a run or of a part of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from offload.bench.advice import question_file
from offload.bench.analysis.gate import GateTerms
from offload.bench.analysis.latency_capacity import LatencyTarget
from offload.bench.experiments import sweep
from offload.bench.planning.plan import Plan
from offload.errors import StorageError, UserError
from offload.registry import application, catalog
from offload.reports.advice.next_steps import constraint_options
from offload.reports.html.run import MeasuredRun
from offload.reports.rows import Row
from offload.suites import Case, Request, _module

DEFAULT_USERS = Case.users  # commands have the same default


def of_run(run: MeasuredRun) -> str | None:
    """Return the command that repeats a run; None if there is no such command."""
    if run.plan is None:
        quick = ",quick=yes" if any(record.trial.quick for record in run.records) else ""
        return f"offload run_suite:{run.suites[0]}{quick}" if len(run.suites) == 1 else None
    try:
        if run.plan.latency is not None:
            return _capacity(run.plan, run.plan.latency)
        if run.plan.gate is not None:
            return _gate(run.plan, run.plan.gate)
        return _of_plan(run.plan, run.folder)
    except (UserError, LookupError):  # the server or the suite no longer exists
        return None


def of_cases(run: MeasuredRun, *rows: Row) -> str | None:
    """Return the command that measures one case or the ratio of two; None if there is none."""
    try:
        found = [_case_of(run, row) for row in rows]
        known = [case for case in found if case is not None]
        if len(known) < len(found) or any(case.request != known[0].request for case in known):
            return None
        is_quick = any(row.first.trial.quick for row in rows)
        return _command("compare" if len(known) > 1 else "measure", known, is_quick)
    except UserError:  # the server no longer exists
        return None


def _of_plan(plan: Plan, folder: Path) -> str | None:
    first = plan.cases[0]
    if plan.suite in catalog.suites():
        return _suite(plan)
    if plan.suite in ("measure", "compare"):
        return _command(plan.suite, plan.cases, plan.quick, plan.target)
    if plan.suite == "scale":
        return _scale(plan)
    if plan.suite == "gil":
        return _join("gil", [*_work(first), f"workers={max(_sizes(plan.cases))}"], first)
    if plan.suite == "advise":
        users = [] if first.users == DEFAULT_USERS else [f"users={first.users}"]
        return _join("advise", [*_work(first), *users, *_constraints(folder)], first)
    return None


def _suite(plan: Plan) -> str:
    """Return the command of a suite, limited to the group of rows that the plan measures."""
    module = _module.load(plan.suite)
    pythons = list(dict.fromkeys(case.python for case in plan.cases))
    keys = {replace(case, python=None).key for case in plan.cases}
    groups = {"all": module.CASES, **module.GROUPS}
    own = [
        name
        for name, cases in groups.items()
        if {replace(c.quick() if plan.quick else c, python=None).key for c in cases} == keys
    ]
    if plan.suite == "tornado" and plan.quick and "published" in own:
        return "offload quick"
    options = [plan.suite]
    default = "claimed" if plan.quick and "claimed" in groups else "all"
    if own and default not in own:
        options.append(f"rows={own[0]}")
    options += ["quick=yes"] if plan.quick else []
    options += _target(plan.target)
    is_own = {case.python for case in module.CASES} == {*pythons}
    if not is_own and all(pythons):
        options.append(f"pythons={'+'.join(map(str, pythons))}")
    return f"offload run_suite:{','.join(options)}"


def _scale(plan: Plan) -> str | None:
    over, first = sweep.varied(plan.cases), plan.cases[0]
    size = catalog.find_server(first.server).size or ""
    if over == sweep.USERS:
        numbers = {"users": sorted({case.users for case in plan.cases})}
        users = []
    else:
        names = {"workers": size} | ({"processes": "processes"} if size == "workers" else {})
        numbers = {name: _numbers(plan.cases, setting) for name, setting in names.items()}
        users = [] if first.users == DEFAULT_USERS else [f"users={first.users}"]
        kept = {k: v for k, v in first.settings.items() if k not in names.values()}
        first = replace(first, settings=kept)
    spelled = _case_arguments(first)
    varied = [f"{name}={'+'.join(map(str, each))}" for name, each in numbers.items() if each]
    return None if spelled is None else _join("scale", [*spelled, *varied, *users], first)


def _capacity(plan: Plan, target: LatencyTarget) -> str | None:
    first = plan.cases[0]
    spelled = _case_arguments(first)
    limit = f"{target.name}={1000 * target.seconds:g}ms"
    kept = ["keep_alive=yes"] if first.keep_alive else []
    arrivals = [] if target.arrivals == "uniform" else [f"arrivals={target.arrivals}"]
    return (
        None if spelled is None else _join("capacity", [*spelled, limit, *arrivals, *kept], first)
    )


def _gate(plan: Plan, terms: GateTerms) -> str | None:
    """Return the command of a gate; None if `cases=` cannot name its cases and their load."""
    cases = plan.cases_now
    users = cases[0].users
    plain = [
        Case(c.server, c.task, users, c.seconds, settings=c.settings, python=c.python)
        for c in cases
    ]
    if [*cases] != plain or any("bind" in case.settings for case in cases):
        return None
    spelled = [_case_arguments(case) for case in cases]
    names = ["/".join(arguments) for arguments in spelled if arguments is not None]
    if len(names) < len(cases) or any("+" in name for name in names):
        return None
    options = [f"against={terms.against}", f"cases={'+'.join(names)}"]
    options += [] if users == DEFAULT_USERS else [f"users={users}"]
    options += [f"gate={100 * terms.loss:g}"]
    options += terms.condition.split()
    options += [] if plan.budget_s is None else [f"budget={plan.budget_s:g}"]
    return _join("compare_runs", options, cases[0])


def _sizes(cases: Sequence[Case]) -> list[int]:
    """Return the numbers of workers or processes of cases, ascending."""
    return _numbers(cases, catalog.find_server(cases[0].server).size or "") or [4]


def _numbers(cases: Sequence[Case], setting: str) -> list[int]:
    found = {case.settings.get(setting) for case in cases}
    return sorted(number for number in found if isinstance(number, int))


def _case_of(run: MeasuredRun, row: Row) -> Case | None:
    """Return the case of a row, from the plan or rebuilt from its record; None if both fail."""
    first = row.first
    candidates = [*run.plan.cases] if run.plan is not None else []
    size = catalog.find_server(first.case.server).size
    both = {"processes": first.server.processes} if size == "workers" else {}
    for settings in ({}, *({**more, size: first.server.workers} for more in ({}, both) if size)):
        sent: dict[str, Any] = dict(first.case.request or {})
        candidates.append(
            Case(
                first.case.server,
                first.case.task,
                users=first.case.users,
                keep_alive=first.case.keep_alive,
                settings=settings,
                python=first.case.python,
                path=first.case.path,
                request=Request(**sent) if sent else None,
            )
        )
    return next((case for case in candidates if case.key == first.key), None)


def _constraints(folder: Path) -> Iterator[str]:
    """Yield the options for the constraints of the advice in a folder."""
    with suppress(StorageError):  # its question is missing, or is about an application
        question = question_file.load(folder)
        yield from constraint_options(question)
        if question.pythons:
            yield f"pythons={'+'.join(each.name for each in question.pythons)}"


def _target(target: float | None) -> list[str]:
    return [] if target is None else [f"target={100 * target:g}"]


def _command(
    name: str, cases: Sequence[Case], is_quick: bool, target: float | None = None
) -> str | None:
    first, users = cases[0], max(case.users for case in cases)
    spelled = [_case_arguments(case) for case in cases]
    words = [each[0] for each in spelled if each is not None]
    if len(words) < len(cases):
        return None
    options = [*words, *_application(first)]
    options += [] if users == DEFAULT_USERS else [f"users={users}"]
    options += ["keep_alive=yes"] if first.keep_alive else []
    options += ["quick=yes"] if is_quick else []
    options += _target(target)
    return _join(name, options, first)


def _join(name: str, options: Sequence[str], case: Case) -> str | None:
    """Return a command; None if an option contains a comma, or if a header value is hidden.

    The request is passed in separate arguments, because its body may contain commas.
    """
    options = [*options, *([f"path={case.path}"] if case.path else []), *_placement(case)]
    is_hidden = case.request is not None and case.request.is_masked
    if is_hidden or any("," in option for option in options):
        return None
    command = shlex.quote(f"{name}:{','.join(options)}")
    return " ".join(["offload", command, *_request(case.request)])


def _case_arguments(case: Case) -> list[str] | None:
    """Return the arguments for a case; None if it has settings that commands cannot set.

    A case of another checkout or environment has none either.
    """
    server = catalog.find_server(case.server)
    sizes = {server.size, "processes"} if server.size in case.settings else {server.size}
    settings = {name: value for name, value in case.settings.items() if name not in sizes}
    is_protected = settings.pop("protect", "no") == "yes"  # its name contains this
    if {*settings} - {"bind"} or case.origin is not None:
        return None
    if not is_protected and "protect" in case.settings:
        return None
    first = case.name.partition("/")[0]
    if application.is_application(case.task):
        return [first, *_application(case)]
    return [f"{first}/{case.task}"]  # the rest of its name depends on the current folder


def _application(case: Case) -> list[str]:
    return [case.task] if application.is_application(case.task) else []


def _placement(case: Case) -> Iterator[str]:
    """Yield the options of the commands that can send the load from other hosts or CPUs."""
    if case.placement.hosts:
        yield f"from={'+'.join(case.placement.hosts)}"
    if "bind" in case.settings:
        yield f"bind={case.settings['bind']}"
    if case.placement.pin:
        yield f"pin={case.placement.pin}"


def _work(case: Case) -> list[str]:
    python = [f"python={case.python}"] if case.python else []
    return [case.task, *python]


def _request(request: Request | None) -> Iterator[str]:
    if request is None:
        return
    if request.path != "/":
        yield f"--request={shlex.quote(request.path)}"
    if request.method != ("GET" if request.body is None else "POST"):
        yield f"--method={request.method}"
    if request.body is not None:
        yield f"--body={shlex.quote(request.body)}"
    if request.header is not None:
        yield f"--header={shlex.quote(request.header)}"
