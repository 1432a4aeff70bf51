"""compare: which of two cases is faster, in a run of one block with one pair."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from offload import options
from offload.studies import PlannedStudy, Run, check_disturbance

if TYPE_CHECKING:
    from offload.documents import Document
    from offload.engine.figures import ComparedCases
    from offload.engine.plan import Plan


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """Compare the rates of two cases.

    The exit code is 5 if a server does not start or all its requests fail, and 7 if other processes
    disturbed the measurement. If some requests fail, a line reports their number; rates count only
    completed requests.

    Examples:
      offload compare 3/sleep_sync 4/sleep_sync
      offload compare uvicorn_h11 granian_asgi app=shop.web:app
    """

    one: options.CompareOne = ""
    other: options.CompareOther = ""
    _: KW_ONLY
    users: options.Users = 25
    keep_alive: options.KeepAlive = False
    quick: options.CompareQuick = False
    served: options.CaseOptions = options.CaseOptions()
    output: options.Output = options.Output()


class Compare(PlannedStudy[Options, "ComparedCases"]):
    """The ratio of the rates of two cases, with its interval and its verdict."""

    options = Options

    def plan(self, options: Options) -> Plan:
        from offload.engine.plan import comparison_plan

        first = options.served.case(options.one, "first case")
        second = options.served.case(options.other, "second case")
        one, other = (
            replace(each, users=options.users, keep_alive=options.keep_alive)
            for each in (first, second)
        )
        return comparison_plan("compare", one, other, options.quick)

    def result(self, run: Run) -> ComparedCases:
        from offload.causes import diagnosis
        from offload.engine.figures import compare_cases

        one, other = run.plan.cases
        return compare_cases(one, other, run.records, run.folder, diagnosis.explain)

    def document(self, result: ComparedCases) -> Document:
        from offload.documents import Document, comparisons, lines

        first, *more = comparisons.verdict_lines(result.names, result.comparison, result.rates)
        has_verdict = result.comparison.disturbed is None
        paragraphs = lines(*more, *comparisons.window_warnings(result))
        return Document(first, paragraphs=paragraphs, has_verdict=has_verdict)

    def values(self, result: ComparedCases) -> Any:
        from offload.documents import comparisons

        return comparisons.verdict_values(result)

    def check(self, result: ComparedCases) -> None:
        check_disturbance(result.comparison.disturbed)


STUDY = Compare()
