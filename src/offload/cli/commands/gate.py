"""The commands baseline and compare_runs: keep a run, and compare rates with it as a gate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from offload import options
from offload.cli.answers import print_answer, print_gate
from offload.cli.plan_run import start_run
from offload.cli.program import command
from offload.cli.run_reports import records_of_others
from offload.errors import UsageError
from offload.options import arguments

if TYPE_CHECKING:
    from offload.suites import Case


@command("Maintain")
def baseline(
    name: options.BaselineName = "",
    run: options.Run = "",
) -> None:
    """Keep a run under a name, to compare later runs with it.

    The copy is results/baseline-NAME; offload report baseline-NAME prints it.

    Example: offload baseline main
    """
    from offload.engine import journal

    if not name:
        kept = ", ".join(journal.baseline_names()) or "none"
        raise UsageError(f"no name given; existing baselines: {kept}", "use offload baseline NAME")
    folder = journal.named(run) if run else journal.newest()
    path = journal.keep_baseline(name, folder)
    print(f"{name}: run {folder.name}, kept in {path}")
    print(f"compare with it: offload compare_runs {name}")


@command("Maintain")
def compare_runs(
    name: options.CompareRunsName = "",
    *,
    gate: options.CompareRunsGate = "5",
    against: options.CompareRunsAgainst = "",
    cases: options.CompareRunsCases = "",
    run: options.CompareRunsRun = "",
    min_rate: options.CompareRunsMinRate = "",
    max_p99: options.CompareRunsMaxP99 = "",
    users: options.CompareRunsUsers = "",
    budget: options.CompareRunsBudget = "",
    open: options.Open = False,
    format: options.CompareRunsFormat = "text",
) -> None:
    """Compare rates with a baseline, as a gate for CI.

    The exit code is 1 if a case lost more than gate= allows, if a case fails, or if min_rate= or
    max_p99= does not hold. It is 7 if the rates vary too much for a verdict, and otherwise 0.

    Examples:
      offload compare_runs main
      offload compare_runs main against=../main
      offload compare_runs against=3.13 cases=3/sleep_sync+4/sleep_sync
    """
    from offload.bench.analysis.gate import GateTerms
    from offload.bench.experiments import gate as gates
    from offload.bench.experiments import kept_runs
    from offload.engine import journal
    from offload.reports.gate import formats

    with formats.reserved():
        arguments.one_of("format", format, *formats.FORMATS)
        loss = arguments.number("gate", gate, 0.1, 90.0) / 100
        seconds = arguments.seconds("budget", budget or "600", 30.0)
        terms = GateTerms(
            loss,
            against,
            min_rate=arguments.number("min_rate", min_rate, 0.001, 1e6) if min_rate else None,
            max_p99_s=arguments.response_time("max_p99", max_p99),
        )
        if against:
            if run:
                raise UsageError("run= excludes against=, which measures now", "leave one out")
            planned = gates.gate_plan(_cases(name, cases, users), terms, seconds)
            print_answer(planned, *start_run(planned, open), format)
            return
        if not name:
            fix = "use offload compare_runs NAME, or against= and cases="
            raise UsageError("no baseline given", fix)
        for option, value in (("users", users), ("open", open), ("budget", budget)):
            if value:
                raise UsageError(f"{option}= needs against=, which measures now", "leave it out")
        folder = journal.named(run) if run else journal.newest()
        chosen = [word for word in cases.split("+") if word]
        with records_of_others(f"{name} or {folder.name}"):
            print_gate(
                kept_runs.compare(journal.find_baseline(name), folder, terms, chosen), format
            )


def _cases(name: str, words: str, users: str) -> list[Case]:
    """Return the cases to measure: those of a kept run, those in `words`, or those in both."""
    from offload.engine import journal
    from offload.suites import Case, _case_syntax

    chosen = [word for word in words.split("+") if word]
    if not name:
        if not chosen:
            raise UsageError(
                "no cases given", "use offload compare_runs NAME, or cases=3/sleep_sync"
            )
        count = arguments.whole_number("users", users or str(Case.users), 1, 20_000)
        found = {each.key: each for each in map(_case_syntax.case, chosen)}
        return [replace(case, users=count) for case in found.values()]
    if users:
        raise UsageError(f"users= excludes {name}, whose cases have their users", "leave one out")
    folder = journal.find_baseline(name)
    found = {case.key: case for case in journal.load_plan(folder).cases if case.origin is None}
    kept = [*found.values()]
    if any(case.request is not None and case.request.is_masked for case in kept):
        what = f"{folder.name} sends a header, a body or a parameter whose value is not in its file"
        raise UsageError(what, "name cases without it by cases=")
    if not chosen:
        return kept
    places = {_case_syntax.find(word, kept, f"the cases of {name}") for word in chosen}
    return [kept[place] for place in sorted(places)]
