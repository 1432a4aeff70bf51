"""The capacity under a latency target, and each step of its search, as text or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from offload.bench.analysis.latency_capacity import (
    FAILED,
    ROUNDS,
    TOOL,
    Capacity,
    LatencyTarget,
    Step,
)
from offload.bench.records.record import Record
from offload.documents import text_table
from offload.documents.text_table import Line
from offload.reports import warnings
from offload.units import number, percent, seconds


def text(found: Capacity, case: str, records: Sequence[Record]) -> str:
    """Render the capacity, the response times by rate, and the warnings."""
    head = ("Rate", found.target.name, f"within {seconds(found.target.seconds)}", "Round")
    lines = [
        Line((f"{number(s.rate)}/s", response(s), "yes" if s.is_kept else "no", str(s.round)))
        for s in sorted(found.steps, key=lambda step: step.rate)
    ]
    table = [text_table.render(head, lines)] if lines else []
    flags = warnings.of_cases([(case, records)])
    return "\n\n".join(
        [f"{case}: {sentence(found)}", *table, *(["\n".join(flags)] if flags else [])]
    )


def sentence(found: Capacity) -> str:
    """Return the capacity with its interval, or why there is none, in one sentence."""
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
    if found.problem == TOOL:
        return "the load generator was too late itself at the next rate"
    if found.problem == FAILED:
        return "a load or its hosts failed, or the steps contradict each other"
    slowest = min(found.steps, key=lambda step: step.rate, default=None)
    if slowest is None:
        return "there are no measurements"
    return f"at {number(slowest.rate)}/s it is {response(slowest)}"


def as_json(found: Capacity, case: str, records: Sequence[Record]) -> str:
    """Return the capacity as a JSON object; rates in requests/s, times in s."""
    return json.dumps(_as_dict(found, case, records), indent=2)


def _as_dict(found: Capacity, case: str, records: Sequence[Record]) -> Mapping[str, object]:
    target = found.target
    return {
        "case": case,
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
        "flags": warnings.of_cases([(case, records)]),
    }
