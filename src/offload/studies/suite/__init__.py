"""suite: every row of a published benchmark, measured here, and what of its claims holds.

A suite is data in ``suites/``. Its runs have its name, and their answer is the tables of their
records. ``claims.py`` has the command that judges the claims.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from offload import loads, options
from offload.errors import RunError, UsageError, printable
from offload.registry import catalog
from offload.studies import Command, Run, Runner, Study
from offload.studies.suite import claims
from offload.suites import MEMORY

if TYPE_CHECKING:
    from offload.engine.plan import Block, Plan
    from offload.engine.record import Record
    from offload.suites import Case, Claim

ALL = "all"
BUDGET_A_ROW = {True: 18.5, False: 80.0}  # s per row; by quick


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """Measure every row of a suite, or with all of every suite.

    JSON is one object, or with all a list of them.

    Examples:
      offload run_suite tornado
      offload run_suite all quick=yes
    """

    suite: options.RunSuiteSuite = ""
    _: KW_ONLY
    quick: options.RunSuiteQuick = False
    driver: options.Driver = ""
    rows: options.Rows = ""
    target: options.Target = None
    pythons: options.RunSuitePythons = ""
    open: options.Open = False
    format: options.Format = "text"


class Suite(Study[Options, "Sequence[Record]"]):
    """The tables of a run: a row that could not be measured has its reason."""

    options = Options
    has_failing_cases = True
    has_missing_pythons = True

    def run(self, options: Options, runner: Runner) -> None:
        if options.suite != ALL:
            runner.answer(self, runner.measure(self.plan(options), options.open), options.format)
            return
        failed: list[str] = []
        found: list[dict[str, object]] = []
        plans = [self.plan(replace(options, suite=name)) for name in _suites_of_all()]
        for plan in plans:  # check all of them first, because a measurement takes long
            runner.check(plan)
        for plan in plans:
            try:
                run = runner.measure(plan, options.open)
                if options.format == "json":
                    runner.write_report(run.folder)
                    found.append(self.values(run.records))
                    self.check(run.records)
                else:
                    runner.answer(self, run, options.format)
            except RunError as error:
                failed.append(f"{plan.suite}: {error}")
        if options.format == "json":
            print(json.dumps(found, indent=2))
        if failed:
            raise RunError("; ".join(failed))

    def plan(self, options: Options) -> Plan:
        if not options.suite:
            known = ", ".join(catalog.suites())
            fix = f"use offload run_suite NAME with one of {known}, or all"
            raise UsageError("no suite given", fix)
        plan = suite_plan(
            options.suite, options.rows, options.driver, options.quick, options.target
        )
        if not options.pythons:
            return plan
        from offload.engine.server import filter_interpreters

        return with_pythons(plan, filter_interpreters(options.pythons.split("+")))

    def result(self, run: Run) -> Sequence[Record]:
        return run.records

    def document(self, result: Sequence[Record]) -> None:
        """The tables of the run are its answer."""

    def values(self, result: Sequence[Record]) -> Any:
        from offload.documents import results_files

        return results_files.run_values(result)

    def render(self, folder: Path, result: Sequence[Record], form: str) -> str:
        from offload.documents import results_files

        if form == "json":
            return json.dumps(self.values(result), indent=2)
        path = folder / "results.txt"
        tables = printable(results_files.tables(result))
        return f"{tables}\ncomplete results, with the output of each load tool: {path}"

    def check(self, result: Sequence[Record]) -> None:
        check_figures(result)


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


def _suites_of_all() -> list[str]:
    """Return the suites that `all` runs: those without IN_ALL = False, which need rare Pythons."""
    from offload.suites import load_suite

    return [name for name in catalog.suites() if getattr(load_suite(name), "IN_ALL", True)]


# Its plan


def suite_plan(suite: str, rows: str, driver: str, is_quick: bool, target: float | None) -> Plan:
    """Return the plan for one group of a suite's rows.

    By default the group is `all`, or with quick the rows that its claims use.
    """
    from offload.engine import plan
    from offload.suites import load_suite

    module = load_suite(suite)
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

    return form_blocks(cases, pairs_of(by_memory=False), by_memory=pairs_of(by_memory=True))


# The main benchmark


@Parameter(name="*")
@dataclass(frozen=True)
class MainOptions:
    """Measure every row of the main benchmark and write results/results.txt.

    Examples:
      offload run_all_load_tests
      offload run_all_load_tests rows=gil quick=yes
    """

    _: KW_ONLY
    quick: options.RunAllLoadTestsQuick = False
    driver: options.Driver = ""
    rows: options.RunAllLoadTestsRows = ""
    target: options.Target = None
    open: options.Open = False
    format: options.Format = "text"


class MainBenchmark(Command[MainOptions]):
    """Runs the suite of the published figures of Tornado."""

    options = MainOptions

    def run(self, options: MainOptions, runner: Runner) -> None:
        rows = options.rows or ("published" if options.quick else ALL)
        plan = suite_plan("tornado", rows, options.driver, options.quick, options.target)
        runner.answer(STUDY, runner.measure(plan, options.open), options.format)


STUDY = Suite()
COMMANDS = {
    "run_all_load_tests": MainBenchmark(),
    "run_suite": STUDY,
    "claims": claims.Claims(),
}
