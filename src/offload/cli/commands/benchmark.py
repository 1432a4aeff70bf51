"""The commands run_all_load_tests, run_suite and resume: runs of a whole suite."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING

from offload import options
from offload.cli import live_page
from offload.cli.answers import print_answer
from offload.cli.program import command
from offload.cli.runner import (
    check,
    check_figures,
    continue_run,
    start_run,
    suite_plan,
    with_pythons,
    write_report,
)
from offload.errors import RunError, UsageError, records_of_others
from offload.options import arguments
from offload.registry import catalog
from offload.studies import formats, studies

if TYPE_CHECKING:
    from offload.engine.plan import Plan


@command("Measure")
def run_all_load_tests(
    *,
    quick: options.RunAllLoadTestsQuick = False,
    driver: options.Driver = "",
    rows: options.RunAllLoadTestsRows = "",
    target: options.Target = None,
    open: options.Open = False,
    format: options.Format = "text",
) -> None:
    """Measure every row of the main benchmark and write results/results.txt.

    Examples:
      offload run_all_load_tests
      offload run_all_load_tests rows=gil quick=yes
    """
    group = rows or ("published" if quick else "all")
    plan = _plan("tornado", quick, driver, group, target)
    print_answer(plan, *start_run(plan, open), format)


@command("Measure")
def run_suite(
    suite: options.RunSuiteSuite = "",
    *,
    quick: options.RunSuiteQuick = False,
    driver: options.Driver = "",
    rows: options.Rows = "",
    target: options.Target = None,
    pythons: options.RunSuitePythons = "",
    open: options.Open = False,
    format: options.Format = "text",
) -> None:
    """Measure every row of a suite, or with all of every suite.

    JSON is one object, or with all a list of them.

    Examples:
      offload run_suite tornado
      offload run_suite all quick=yes
    """
    if not suite:
        known = ", ".join(catalog.suites())
        raise UsageError(
            "no suite given", f"use offload run_suite NAME with one of {known}, or all"
        )
    if suite != "all":
        plan = _plan(suite, quick, driver, rows, target, pythons)
        print_answer(plan, *start_run(plan, open), format)
        return
    failed: list[str] = []
    found: list[dict[str, object]] = []
    names = _suites_of_all()
    plans = [_plan(name, quick, driver, rows, target, pythons) for name in names]
    for plan in plans:  # check all of them first, because a measurement takes long
        check(plan)
    from offload.documents import results_files

    for plan in plans:
        try:
            folder, records = start_run(plan, open)
            if format == "json":
                write_report(folder)
                found.append(results_files.run_values(records))
                check_figures(records)
            else:
                print_answer(plan, folder, records, format)
        except RunError as error:
            failed.append(f"{plan.suite}: {error}")
    if format == "json":
        print(json.dumps(found, indent=2))
    if failed:
        raise RunError("; ".join(failed))


def _suites_of_all() -> list[str]:
    """Return the suites that `all` runs: those without IN_ALL = False, which need rare Pythons."""
    from offload.suites import _module

    return [name for name in catalog.suites() if getattr(_module.load(name), "IN_ALL", True)]


@command("Measure")
def resume(
    run: options.ResumeRun = "",
    *,
    hosts: options.HostOptions = options.HostOptions(),
    open: options.Open = False,
    format: options.ResumeFormat = "text",
) -> None:
    """Continue an interrupted run; finished rounds are not repeated.

    Example: offload resume
    """
    from offload.engine import journal

    arguments.one_of("format", format, *formats())
    folder = journal.find_run(run) if run else journal.newest_unfinished()
    unfinished = journal.load_plan(folder)
    study = studies().get(unfinished.suite)
    arguments.one_of("format", format, *(("text", "json") if study is None else study.formats))
    if unfinished.is_masked:
        what = f"{folder.name} sends a header, a body or a parameter whose value is not in its file"
        raise UsageError(what, "start a new run by its command")
    with nullcontext() if study is None else study.reserve():
        if journal.is_due(unfinished, folder):
            if any(case.placement.hosts for case in unfinished.cases):
                hosts.connect()
            check(unfinished)
            if study is not None:
                study.check_plan(unfinished)
            if open:
                live_page.start_for_run(folder)
        records = continue_run(unfinished, folder)
        with records_of_others(folder.name):
            print_answer(unfinished, folder, records, format)


def _plan(
    suite: str,
    quick: bool,
    driver: str,
    rows: str,
    target: float | None,
    pythons: str = "",
) -> Plan:
    """Return the plan of a suite from the options of a command."""
    plan = suite_plan(suite, rows, driver, quick, target)
    if not pythons:
        return plan
    from offload.engine.server import filter_interpreters

    return with_pythons(plan, filter_interpreters(pythons.split("+")))
