"""measure: the rate of one case, in rounds until it is known well enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from offload import options
from offload.errors import RunError
from offload.registry.catalog import is_application
from offload.studies import PlannedStudy, Run
from offload.units import GIL_HELD, LOOP_LAG, MEMORY, RESPONSE, counted, number

UNKNOWN = "-"

if TYPE_CHECKING:
    from offload.documents import Document
    from offload.documents.rows import Row
    from offload.engine.plan import Plan


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """Measure one case until its rate is known to +-2 %.

    The measurement also ends after the last round, or after 60 s of load (180 s below
    2 requests/s). The interval is then wider. The exit code is 5 if a server does not start or all
    its requests fail.

    Examples:
      offload measure 3/sleep_sync
      offload measure granian_asgi app=shop.web:app request=/quote/7
    """

    case: options.CaseText = ""
    _: KW_ONLY
    users: options.Users = 25
    keep_alive: options.KeepAlive = False
    target: options.Target = None
    quick: options.Quick = False
    served: options.CaseOptions = options.CaseOptions()
    placed: options.PlacementOptions = options.PlacementOptions()
    pin: options.Pin = ""
    output: options.Output = options.Output()


class Measure(PlannedStudy[Options, "Row"]):
    """The rate of a case with its interval, its response times, its memory and its GIL."""

    options = Options

    def plan(self, options: Options) -> Plan:
        from offload.engine import plan
        from offload.engine.plan import Block

        placed = options.placed.place(options.served.case(options.case), options.pin)
        one = replace(placed, users=options.users, keep_alive=options.keep_alive)
        return plan.Plan(
            "measure",
            (one,),
            plan.new_seed(),
            driver=None,
            rule=plan.Sequential(quick=options.quick, target=options.target),
            blocks=(Block((0,)),),
            sampled=(0,) if is_application(one.task) else (),
        )

    def result(self, run: Run) -> Row:
        from offload.documents.rows import rows

        found = rows(run.records)
        if not found:
            raise RunError(
                "no load was measured", f"continue with offload resume {run.folder.name}"
            )
        return found[-1]

    def document(self, result: Row) -> Document:
        from offload.documents import Document, lines, notes
        from offload.documents.rows import case_name, conditions

        name, users = case_name(result.first), counted(result.first.case.users, "user")
        found = result.estimate
        if result.problem is not None or result.rate is None:
            return Document(f"{name}: {_why_not(result, str(result.problem))}", has_verdict=False)
        carries = f"{name} carries {number(result.rate)} requests/s with {users}"
        if found is not None and found.low is not None and found.high is not None:
            ends = f"{number(found.low)} to {number(found.high)}"
            carries += f" (95 % interval {ends}, {found.n} rounds of fresh servers)"
        return Document(
            f"{carries}.",
            ("Figure", "Value", "Meaning"),
            tuple(row for row in _figures(result) if row[1] != UNKNOWN),
            lines(
                *_missed_target(result),
                *conditions([result]).splitlines(),
                *notes.collect_notes([result]),
            ),
            numbers=(1,),
        )

    def values(self, result: Row) -> Any:
        from offload.documents import results_files

        return [results_files.row_values(result)]

    def check(self, result: Row) -> None:
        if result.problem is not None or not result.rate:
            text = "" if result.problem is None else result.problem.text
            raise RunError(f"no row has figures: {_why_not(result, text)}")


def _why_not(row: Row, problem: str) -> str:
    from offload.causes import diagnosis

    if row.problem is None:
        problem = "no request was completed"
    return diagnosis.explain(row.records, problem)


def _missed_target(row: Row) -> Iterator[str]:
    """Yield how wide the interval is, if it is wider than its target."""
    from offload.engine.intervals import target_half_width
    from offload.units import percent

    found, trial = row.estimate, row.first.trial
    if found is None or found.half_width is None:
        return
    target = trial.target or target_half_width(found.value, trial.quick)
    if found.half_width > target:
        half, wanted = percent(found.half_width, 1), percent(target, 1)
        yield f"The interval is +-{half}, not +-{wanted}: no more rounds are measured."


def _figures(row: Row) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the value and the meaning of each figure."""
    from offload.documents.rows import memory_text, share_text, time_or_more, time_text

    bound, lag = row.at_least_s, row.loop_lag_p99_ms
    yield RESPONSE, time_text(row.response_mean_s), "mean, with the wait for other requests"
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        meaning = f"of the response times: {share:.0%} are shorter".replace("%", " %")
        yield name, time_or_more(row.quantile(share), bound), meaning
    yield MEMORY, memory_text(row.memory_pss_mib), "peak of all processes (PSS)"
    yield GIL_HELD, share_text(row.gil_hold), "share of the run time of a single task"
    yield LOOP_LAG, UNKNOWN if lag is None else f"{lag:.1f} ms", "delay of the event loop, p99"


STUDY = Measure()
