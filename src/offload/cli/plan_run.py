"""Run a plan: update results.txt after each round, and print the tables at the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from offload import loads
from offload.cli import live_page
from offload.cli.program import Exit
from offload.errors import RunError, UsageError, UserError
from offload.registry import addresses, catalog
from offload.studies import studies
from offload.suites._claim import MEMORY

if TYPE_CHECKING:
    from offload.engine.plan import Block, Plan
    from offload.engine.record import Record
    from offload.suites import Case, Claim

BUDGET_A_ROW = {True: 18.5, False: 80.0}  # s per row; by quick


def suite_plan(suite: str, rows: str, driver: str, is_quick: bool, target: float | None) -> Plan:
    """Return the plan for one group of a suite's rows.

    By default the group is `all`, or with quick the rows that its claims use.
    """
    from offload.engine import plan
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
        plan.Sequential(
            quick=is_quick, target=target, budget_s=BUDGET_A_ROW[is_quick] * len(cases)
        ),
        missing=None if driver else loads.missing(tool),
        blocks=_blocks(cases, getattr(module, "CLAIMS", ()), is_quick),
    )


def with_pythons(plan: Plan, pythons: Sequence[str]) -> Plan:
    """Return a plan that measures every case in each of the interpreters."""
    unique = {case.key: case for case in (replace(c, python=None) for c in plan.cases)}
    cases = tuple(replace(case, python=python) for case in unique.values() for python in pythons)
    is_quick = plan.rule.quick
    rule = replace(plan.rule, budget_s=BUDGET_A_ROW[is_quick] * len(cases))
    return replace(plan, cases=cases, blocks=_blocks(cases, (), is_quick), rule=rule)


def _blocks(cases: Sequence[Case], claims: Sequence[Claim], is_quick: bool) -> tuple[Block, ...]:
    from offload.engine.plan import form_blocks

    def pairs_of(by_memory: bool) -> list[tuple[Case, Case]]:
        found = [claim for claim in claims if (claim.figure == MEMORY) == by_memory]
        both = [(claim.one, claim.other) for claim in found]
        return [(one.quick(), other.quick()) for one, other in both] if is_quick else both

    return form_blocks(cases, pairs_of(by_memory=False), apart=pairs_of(by_memory=True))


def start_run(plan: Plan, is_opened: bool = False) -> tuple[Path, list[Record]]:
    """Run a new plan in a new folder; return the folder and all records.

    With `is_opened` its live page is served and opened first.
    """
    check(plan)  # before the slow imports, so that a missing tool is reported soon
    _check_placements(plan)
    # In a suite such an error is a row, and in a gate it is a loss.
    study = studies().get(plan.suite)
    if plan.suite not in catalog.suites() and not (study is not None and study.has_failing_cases):
        own = [case for case in plan.cases if catalog.is_own(case.task)]
        if own:
            from offload.engine.calling_process import check_imports

            check_imports(own)
    from offload.engine import journal
    from offload.engine.progress import duration

    if is_opened:
        live_page.idle_s()  # raises UsageError before anything is written
    folder = journal.new_run(plan.suite)
    journal.save_plan(plan, folder)
    rows = f"{len(plan.cases)} rows" if len(plan.cases) > 1 else plan.cases[0].name
    reason = f" ({plan.missing})" if plan.missing else ""
    long = f", then a longer run of each with {plan.driver}{reason}" if plan.driver else ""
    shortest, longest = map(duration, plan.rule.expected_s(plan))
    time = f"about {longest}" if shortest == longest else f"{shortest} to {longest}"
    print(
        f"{rows}: {plan.rule.LOADS} by builtin{long}: {time}; results in {folder}", file=sys.stderr
    )
    if is_opened:
        live_page.start_for_run(folder)
    return folder, continue_run(plan, folder)


def check(plan: Plan) -> None:
    """Raise UserError if a server or a load tool of a plan cannot be started."""
    from offload.engine import server

    for case in plan.cases:
        is_published = plan.suite in catalog.suites()  # a missing Python is reported in its row
        checked = replace(case, python=None) if is_published else case
        server.command(checked, port=0)  # raises UsageError for an unknown setting or Python
        load = loads.Load(
            "http://127.0.0.1/",
            case.users,
            case.seconds,
            keep_alive=case.keep_alive,
            message=case.request.message if case.request else loads.Message(),
            processes=case.clients,
        )
        for driver in {"builtin", plan.driver or "builtin"}:
            loads.check(load, driver, case.placement.sender)


def _check_placements(plan: Plan) -> None:
    """Warn of servers that other machines can reach; raise MachineError if a host is missing."""
    bound_to = {str(case.settings["bind"]) for case in plan.cases if "bind" in case.settings}
    for warning in map(addresses.exposure_warning, sorted(bound_to)):
        if warning is not None:
            print(warning, file=sys.stderr)
    if names := {case.placement.hosts for case in plan.cases if case.placement.hosts}:
        from offload.loads import hosts

        for each in names:
            hosts.check(each)


def continue_run(plan: Plan, folder: Path) -> list[Record]:
    """Measure the due rounds and long runs of a plan; return all records."""
    from offload.documents import results_files
    from offload.engine import journal
    from offload.engine.run import run

    records: list[Record] = []
    try:
        for records in run(plan, folder):
            results_files.publish(folder, records)
    except KeyboardInterrupt:
        raise Exit(f"interrupted: {_resume_hint(folder)}", code=130) from None
    except UserError as error:
        if not journal.count(folder):  # no round was finished
            raise
        raise type(error)(f"{error}; {_resume_hint(folder)}") from error
    return records or journal.read_planned_if_any(folder, plan)


def _resume_hint(folder: Path) -> str:
    from offload.engine import journal

    count, run = journal.count(folder), folder.name
    results = f", and printed by offload report {run}" if count else ""
    fix = f"continue with offload resume {run}"
    if journal.has_plan(folder) and journal.load_plan(folder).is_masked:
        fix = "start a new run, because no file has the values or the body of its requests"
    return f"{count} finished loads are kept{results}: {fix}"


def show_results(records: Sequence[Record], format: str) -> None:  # noqa: A002
    """Print the tables of a run, or one JSON object; raise RunError without figures."""
    from offload.documents import results_files

    if format == "json":
        print(results_files.run_json(records), end="")
    else:
        _print_tables(records)
    check_figures(records)


def _print_tables(records: Sequence[Record]) -> None:
    from offload.documents import results_files
    from offload.engine import journal
    from offload.errors import printable

    print(printable(results_files.tables(records)))
    path = journal.RESULTS / records[-1].trial.run / "results.txt"
    print(f"complete results, with the output of each load tool: {path}")


def check_figures(records: Sequence[Record]) -> None:
    """Raise RunError if no row of a run has figures.

    Attempts that were retried and failed loads do not count, because no row uses their figures.
    """
    from offload.engine.record import RunRecords

    last = RunRecords(records).last_attempts()
    if not any(record.result.completed and record.problem is None for record in last):
        problems = [record.problem for record in last if record.problem]
        fixes = {problem.remedy or problem.message for problem in problems}
        why = problems[0].text if len(fixes) == 1 else "each row has its problem"
        raise RunError(f"no row has figures: {why}")
