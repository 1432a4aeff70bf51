"""gate: which cases lost more of their rate than a limit, as a check for CI.

``rule.py`` judges the cases and ends their rounds, ``result.py`` has the plan and the result,
``formats.py`` the result in words and for other programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from offload import options
from offload.errors import GateError, UndecidedError, UsageError, records_of_others
from offload.options import arguments
from offload.studies import Command, Run, Runner, Study

if TYPE_CHECKING:
    from offload.documents import Document
    from offload.engine.plan import Plan
    from offload.studies.gate.result import GateResult
    from offload.studies.gate.rule import GateTerms
    from offload.suites import Case

FORMATS = ("text", "json", "markdown", "junit", "bencher", "badge")


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """Compare rates with a baseline, as a gate for CI.

    The exit code is 1 if a case lost more than gate= allows, if a case fails, or if min_rate= or
    max_p99= does not hold. It is 7 if the rates vary too much for a verdict, and otherwise 0.

    Examples:
      offload compare_runs main
      offload compare_runs main against=../main
      offload compare_runs against=3.13 cases=3/sleep_sync+4/sleep_sync
    """

    name: options.CompareRunsName = ""
    _: KW_ONLY
    gate: options.CompareRunsGate = "5"
    against: options.CompareRunsAgainst = ""
    cases: options.CompareRunsCases = ""
    run: options.CompareRunsRun = ""
    min_rate: options.CompareRunsMinRate = ""
    max_p99: options.CompareRunsMaxP99 = ""
    users: options.CompareRunsUsers = ""
    budget: options.CompareRunsBudget = ""
    open: options.Open = False
    format: options.CompareRunsFormat = "text"

    @property
    def chosen(self) -> list[str]:
        """The cases that are named."""
        return [word for word in self.cases.split("+") if word]


class Gate(Study[Options, "GateResult"]):
    """Which cases lost more than the limit, each measured side by side with its baseline."""

    group = "Maintain"
    formats = FORMATS
    options = Options
    has_failing_cases = True  # they are losses

    def run(self, options: Options, runner: Runner) -> None:
        from offload.engine import journal
        from offload.studies.gate import result

        with self.reserve():
            arguments.one_of("format", options.format, *FORMATS)
            if options.against:
                plan = self.plan(options)
                runner.answer(self, runner.measure(plan, options.open), options.format)
                return
            terms = _terms(options)
            _budget_s(options)
            if not options.name:
                fix = "use offload compare_runs NAME, or against= and cases="
                raise UsageError("no baseline given", fix)
            for option in ("users", "open", "budget"):
                if getattr(options, option):
                    what = f"{option}= needs against=, which measures now"
                    raise UsageError(what, "leave it out")
            folder = journal.named(options.run) if options.run else journal.newest()
            with records_of_others(f"{options.name} or {folder.name}"):
                kept = journal.find_baseline(options.name)
                found = result.compare_kept(kept, folder, terms, options.chosen)
                runner.show(self, folder, found, options.format)

    def plan(self, options: Options) -> Plan:
        from offload.studies.gate import result

        terms = _terms(options)
        if options.run:
            raise UsageError("run= excludes against=, which measures now", "leave one out")
        return result.gate_plan(_cases(options), terms, _budget_s(options))

    def check_plan(self, plan: Plan) -> None:
        from offload.studies.gate import result

        result.check_sides(plan)

    def reserve(self) -> AbstractContextManager[None]:
        from offload.studies.gate import formats

        return formats.reserved()

    def result(self, run: Run) -> GateResult:
        from offload.studies.gate import result

        with records_of_others(run.folder.name):
            return result.evaluate(run.plan, run.records, run.folder)

    def document(self, result: GateResult) -> Document:
        from offload.studies.gate import document

        return document.document(result)

    def values(self, result: GateResult) -> Any:
        from offload.studies.gate import formats

        return formats.as_dict(result)

    def render(self, folder: Path, result: GateResult, form: str) -> str:
        from offload.studies.gate import formats

        text = formats.render(result, form).removesuffix("\n")
        return f"{text}\nin every format: {formats.folder()}" if form == "text" else text

    def export(self, result: GateResult) -> None:
        from offload.studies.gate import formats

        formats.publish(result)

    def check(self, result: GateResult) -> None:
        from offload.studies.gate import formats
        from offload.studies.gate.result import PASSED, RED

        what, names = formats.headline(result).removesuffix("."), formats.named_cases(result)
        if result.outcome == RED:
            raise GateError(what, names)
        if result.outcome != PASSED:
            raise UndecidedError(what, names)


def _terms(options: Options) -> GateTerms:
    from offload.studies.gate.rule import GateTerms

    rate = options.min_rate
    return GateTerms(
        arguments.number("gate", options.gate, 0.1, 90.0) / 100,
        options.against,
        min_rate=arguments.number("min_rate", rate, 0.001, 1e6) if rate else None,
        max_p99_s=arguments.response_time("max_p99", options.max_p99),
    )


def _budget_s(options: Options) -> float:
    return arguments.seconds("budget", options.budget or "600", 30.0)


def _cases(options: Options) -> Sequence[Case]:
    """Return the cases to measure: those of a kept run, those that are named, or those in both."""
    from offload.engine import journal
    from offload.suites import Case, _case

    chosen = options.chosen
    if not options.name:
        if not chosen:
            fix = "use offload compare_runs NAME, or cases=3/sleep_sync"
            raise UsageError("no cases given", fix)
        users = arguments.whole_number("users", options.users or str(Case.users), 1, 20_000)
        named = {each.key: each for each in map(_case.parse_case, chosen)}
        return [replace(case, users=users) for case in named.values()]
    if options.users:
        what = f"users= excludes {options.name}, whose cases have their users"
        raise UsageError(what, "leave one out")
    folder = journal.find_baseline(options.name)
    found = {case.key: case for case in journal.load_plan(folder).cases if case.origin is None}
    kept = [*found.values()]
    if any(case.request is not None and case.request.is_masked for case in kept):
        what = f"{folder.name} sends a header, a body or a parameter whose value is not in its file"
        raise UsageError(what, "name cases without it by cases=")
    if not chosen:
        return kept
    case_indexes = {_case.find_case(word, kept, f"the cases of {options.name}") for word in chosen}
    return [kept[index] for index in sorted(case_indexes)]


@Parameter(name="*")
@dataclass(frozen=True)
class BaselineOptions:
    """Keep a run under a name, to compare later runs with it.

    The copy is results/baseline-NAME; offload report baseline-NAME prints it.

    Example: offload baseline main
    """

    name: options.BaselineName = ""
    run: options.Run = ""


class Baseline(Command[BaselineOptions]):
    """Keeps a run, with which a gate compares later ones."""

    group = "Maintain"
    options = BaselineOptions

    def run(self, options: BaselineOptions, runner: Runner) -> None:
        from offload.engine import journal

        if not options.name:
            kept = ", ".join(journal.baseline_names()) or "none"
            what = f"no name given; existing baselines: {kept}"
            raise UsageError(what, "use offload baseline NAME")
        folder = journal.named(options.run) if options.run else journal.newest()
        path = journal.keep_baseline(options.name, folder)
        print(f"{options.name}: run {folder.name}, kept in {path}")
        print(f"compare with it: offload compare_runs {options.name}")


STUDY = Gate()
COMMANDS = {"baseline": Baseline(), "compare_runs": STUDY}
