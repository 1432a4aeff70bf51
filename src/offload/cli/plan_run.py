"""Running a plan: its visits, with results.txt current after each, and its tables at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from invoke import Exit

from offload import loads
from offload.errors import Mendable, RunError, StartError, UsageError
from offload.registry import catalog

if TYPE_CHECKING:
    from offload.bench.records.plan import Plan
    from offload.bench.records.record import Record
    from offload.suites import Case


def suite_plan(suite: str, rows: str, driver: str, is_quick: bool, target: float | None) -> Plan:
    """Make the plan of a suite: those rows of one of its groups.

    Without `rows` all of them, or with quick those that its claims are about.
    """
    from offload.bench.records import plan
    from offload.suites import _module

    module = _module.load(suite)
    groups = {"all": module.CASES, **module.GROUPS}
    rows = rows or ("claimed" if is_quick and "claimed" in groups else "all")
    if rows not in groups:
        raise UsageError(f"rows={rows!r}: {suite} has {', '.join(groups)}")
    cases: Sequence[Case] = groups[rows]
    if is_quick:
        cases = [case.quick() for case in cases]
    tool = getattr(module, "TOOL", "siege")
    return plan.Plan(
        suite,
        tuple(cases),
        plan.new_seed(),
        driver or loads.default_driver(tool),
        is_quick,
        target,
        missing=None if driver else loads.missing(tool),
    )


def start_run(plan: Plan) -> tuple[Path, list[Record]]:
    """Run a new plan in a folder of its own; give the folder and all records."""
    from offload.bench.experiments.progress import duration, expected_s
    from offload.bench.records import journal
    from offload.bench.records import plan as plans
    from offload.bench.target import server

    for case in plan.cases:
        is_published = plan.suite in catalog.suites()  # whose Python may be one that is not here
        words = replace(case, python=None) if is_published else case
        server.command(words, port=0)  # raises for what cannot be started
        method = case.request.method if case.request else "GET"
        load = loads.Load(
            "http://127.0.0.1/",
            case.users,
            case.seconds,
            keep_alive=case.keep_alive,
            method=method,
            processes=case.clients,
        )
        for driver in {"builtin", plan.driver or "builtin"}:
            loads.check(load, driver)
    folder = journal.new_run(plan.suite)
    plans.save(plan, folder)
    rows = f"{len(plan.cases)} rows" if len(plan.cases) > 1 else plan.cases[0].name
    why = f" ({plan.missing})" if plan.missing else ""
    long = f" and one long run each with {plan.driver}{why}" if plan.driver else ""
    least, most = (duration(expected_s(plan, n)) for n in (None, plan.design.last))
    takes = f"{least} or more, {most} when all visits are needed, and longer on a busy machine"
    print(f"{rows}: visits with builtin{long}: {takes}; into {folder}", file=sys.stderr)
    return folder, continue_run(plan, folder)


def continue_run(plan: Plan, folder: Path) -> list[Record]:
    """Make the visits of a plan that its folder does not have yet; give all records."""
    from offload.bench.experiments.run import run
    from offload.bench.records import journal
    from offload.reports import publish

    records: list[Record] = []
    try:
        for records in run(plan, folder):
            publish.publish(folder, records)
    except KeyboardInterrupt:
        raise Exit(f"interrupted: {_resume_hint(folder)}", code=130) from None
    except Mendable as error:
        if not journal.count(folder):  # nothing was begun
            raise
        raise type(error)(f"{error}; {_resume_hint(folder)}") from error
    return records or journal.read(folder)


def _resume_hint(folder: Path) -> str:
    from offload.bench.records import journal

    return f"{journal.count(folder)} finished visits are kept: fab resume:{folder.name} goes on"


@contextmanager
def start_errors_as_run_errors() -> Iterator[None]:
    """Make a server that does not start a run without figures, as it is in a plan's visits."""
    try:
        yield
    except StartError as error:
        raise RunError(str(error)) from error


def show(records: Sequence[Record], format: str) -> None:  # noqa: A002 - the option's name
    """Print the tables of a run, or its rows as JSON; raise RunError when no row has figures."""
    from offload.bench.records import journal
    from offload.bench.records.record import UNAVAILABLE
    from offload.reports import json_rows, results_txt

    if format == "json":
        print(json_rows.as_json(records), end="")
    else:
        print(results_txt.tables(records))
        path = journal.RESULTS / records[-1].run / "results.txt"
        print(f"all of it, with every load tool's own output: {path}")
    if not any(record.completed for record in records):
        problems = [
            record.problem.removeprefix(UNAVAILABLE) for record in records if record.problem
        ]
        fixes = {problem.rpartition(": ")[2] for problem in problems}
        why = problems[0] if len(fixes) == 1 else "the notes under the table say why"
        raise RunError(f"no row has figures: {why}")


def with_load(cases: Sequence[Case], users: int, keep_alive: bool) -> tuple[Case, ...]:
    """Give the cases with the load that was asked for."""
    return tuple(replace(case, users=users, keep_alive=keep_alive) for case in cases)
