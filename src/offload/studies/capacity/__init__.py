"""capacity: the highest request rate at which a case keeps a latency target."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

from cyclopts import Parameter

from offload import options
from offload.errors import RunError, UsageError
from offload.studies import PlannedStudy, Run
from offload.units import number, percent, seconds

if TYPE_CHECKING:
    from offload.documents import Chart, Document
    from offload.engine.plan import Plan
    from offload.studies.capacity.rule import Capacity, LatencyTarget, Step

SHARES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """Find the highest rate that keeps a latency target.

    It sends requests to fresh servers at a fixed rate, whether or not earlier ones have a response.
    The rate is doubled until the target is missed. Then five rounds narrow it down; the interval is
    that of these rounds. This takes 2 to 3 minutes with limits up to 100 ms, and longer with higher
    ones (about 10 minutes with 600 ms), because a queue must grow up to the limit. The exit code is
    5 if no rate keeps the target, if a load fails, or if the load generator is too slow for the
    server.

    Examples:
      offload capacity 3/sleep_sync p99=600ms
      offload capacity uvicorn_h11 app=shop.web:app p95=50ms arrivals=poisson
    """

    case: options.CaseText = ""
    _: KW_ONLY
    p50: options.CapacityP50 = None
    p90: options.CapacityP90 = None
    p95: options.CapacityP95 = None
    p99: options.CapacityP99 = None
    p999: options.CapacityP999 = None
    arrivals: options.Arrivals = "uniform"
    keep_alive: options.KeepAlive = False
    served: options.CaseOptions = options.CaseOptions()
    placed: options.PlacementOptions = options.PlacementOptions()
    output: options.Output = options.Output()


@dataclass(frozen=True)
class Found:
    """The capacity of a case, the warnings on its loads, and the first problem of a load."""

    case: str
    capacity: Capacity
    flags: tuple[str, ...]
    problem: str | None


class CapacityStudy(PlannedStudy[Options, Found]):
    """The capacity with its interval, and the response times by rate."""

    options = Options

    def plan(self, options: Options) -> Plan:
        from offload.engine import plan
        from offload.studies.capacity.rule import LatencySearch, LatencyTarget

        limits = {name: getattr(options, name) for name in SHARES}
        given = {name: limit for name, limit in limits.items() if limit is not None}
        if len(given) != 1:
            named = " and ".join(given)
            what = f"{named} exclude each other" if given else "no latency target given"
            raise UsageError(what, "use one, such as p99=50ms")
        [(name, limit)] = given.items()
        one = options.placed.place(options.served.case(options.case))
        return plan.Plan(
            "capacity",
            (replace(one, keep_alive=options.keep_alive),),
            plan.new_seed(),
            driver=None,
            rule=LatencySearch(
                latency=LatencyTarget(SHARES[name], limit, options.arrivals), quick=True
            ),
        )

    def result(self, run: Run) -> Found:
        from offload.documents import notes
        from offload.studies.capacity import rule

        assert isinstance(run.plan.rule, rule.LatencySearch)
        found = rule.evaluate(run.plan.rule.latency, run.records)
        name = run.plan.cases[0].name
        problems = (record.problem.text for record in run.records if record.problem is not None)
        flags = notes.case_warnings([(name, run.records)])
        return Found(name, found, tuple(flags), next(problems, None))

    def document(self, result: Found) -> Document:
        from offload.documents import Document, lines

        found = result.capacity
        rows = [
            (f"{number(s.rate)}/s", response(s), "yes" if s.is_kept else "no", str(s.round))
            for s in sorted(found.steps, key=lambda step: step.rate)
        ]
        return Document(
            f"{result.case}: {sentence(found)}",
            ("Rate", found.target.name, f"within {seconds(found.target.seconds)}", "Round"),
            tuple(rows),
            lines(*result.flags),
            (_chart(found),) if any(math.isfinite(s.response_s) for s in found.steps) else (),
            has_verdict=found.value is not None,
        )

    def values(self, result: Found) -> Any:
        found, target = result.capacity, result.capacity.target
        return {
            "case": result.case,
            "percentile": target.name,
            "target_s": target.seconds,
            "arrivals": target.arrivals,
            "capacity": found.value,
            "capacity_low": found.low,
            "capacity_high": found.high,
            "at_least": found.at_least,
            "problem": None if found.problem is None else _reason(found),
            "rounds": list(found.estimates),
            "steps": [
                {
                    "round": step.round,
                    "rate": step.rate,
                    "kept": step.is_kept,
                    "response_s": None if math.isinf(step.response_s) else step.response_s,
                }
                for step in found.steps
            ],
            "flags": list(result.flags),
        }

    def check(self, result: Found) -> None:
        found = result.capacity
        if result.problem is not None:
            raise RunError(result.problem)
        if found.value is None:
            raise RunError(f"{result.case}: {sentence(found)}", remedy(found))


def sentence(found: Capacity) -> str:
    """Return the capacity with its interval, or why there is none, in one sentence."""
    from offload.studies.capacity.rule import ROUNDS

    target = _target(found.target)
    if found.problem is not None:
        kept = f"; {number(found.at_least)}/s keeps it" if found.at_least else ""
        return f"no capacity for {target}: {_reason(found)}{kept}"
    if found.value is None:
        return f"no capacity for {target} yet: the search has not ended"
    rounds = len(found.estimates)
    unfinished = f", {rounds} of {ROUNDS} rounds" if rounds < ROUNDS else ""
    if found.low is None or found.high is None:
        return f"about {number(found.value)} requests/s with {target}{unfinished}"
    ends = f"{number(found.low)} to {number(found.high)}"
    half_width = math.sqrt(found.high / found.low) - 1
    return (
        f"{number(found.value)} requests/s ({ends}; +-{percent(half_width, 1)}) with {target}"
        f"{unfinished}"
    )


def remedy(found: Capacity) -> str:
    """Return what to do if there is no capacity."""
    from offload.studies.capacity.rule import FAILED, TOOL

    if found.problem == TOOL:
        return "use keep_alive=yes, or a higher limit"
    return "find the cause and repeat" if found.problem == FAILED else "use a higher limit"


def response(step: Step) -> str:
    """Return the percentile of a step; "failed" if too many requests had no response."""
    return "failed" if math.isinf(step.response_s) else seconds(step.response_s)


def _target(target: LatencyTarget) -> str:
    arrivals = "arrivals at equal intervals" if target.arrivals == "uniform" else "random arrivals"
    return f"{target.name} up to {seconds(target.seconds)} and {arrivals}"


def _reason(found: Capacity) -> str:
    from offload.studies.capacity.rule import FAILED, TOOL

    if found.problem == TOOL:
        return "the load generator was too late itself at the next rate"
    if found.problem == FAILED:
        return "a load or its hosts failed, or the steps contradict each other"
    slowest = min(found.steps, key=lambda step: step.rate, default=None)
    if slowest is None:
        return "there are no measurements"
    return f"at {number(slowest.rate)}/s it is {response(slowest)}"


def _chart(found: Capacity) -> Chart:
    """Return the percentile of the response times over the request rate, with the capacity."""
    from offload.documents import Chart, Curve, Spot

    known = [step for step in found.steps if math.isfinite(step.response_s)]
    limit_ms, name = 1000 * found.target.seconds, found.target.name
    spots = (
        Spot(s.rate, 1000 * s.response_s, f"{number(s.rate)}/s: {seconds(s.response_s)}")
        for s in known
    )
    highest = max(step.rate for step in known)
    limit = Curve(f"limit {seconds(found.target.seconds)}", ((0.0, limit_ms), (highest, limit_ms)))
    return Chart(
        f"{name} of the response times over the request rate",
        "requests/s sent",
        f"{name} in ms",
        tuple(spots),
        (limit,),
        "Each dot is one load of a fresh server; the rule is at the capacity.",
        found.value,
    )


STUDY = CapacityStudy()
