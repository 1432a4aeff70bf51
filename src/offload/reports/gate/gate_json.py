"""The result of a gate as JSON, for programs; gate.schema.json describes it."""

from __future__ import annotations

import json
import math
from pathlib import Path

from offload.bench.experiments.gate import GatedCase, GateResult
from offload.engine.figures import Measured
from offload.reports.gate import sentences

SCHEMA = Path(__file__).with_name("gate.schema.json")


def as_json(found: GateResult) -> str:
    """Render the verdict, the cases and the condition as one JSON object."""
    return json.dumps(as_dict(found), indent=2, allow_nan=False) + "\n"


def as_dict(found: GateResult) -> dict[str, object]:
    """Return the verdict, the cases and the condition; unknown values are None."""
    verdict, kept = found.condition, found.kept
    return {
        "verdict": found.outcome,
        "loss_allowed": found.terms.loss,
        "baseline": found.baseline,
        "side_by_side": kept is None,
        "differences": [*found.terms.differences],
        "speed_moved": None if kept is None else kept.moved,
        "smallest_loss": None if kept is None else kept.smallest(found.terms.loss),
        "cases": [_case(found, case) for case in found.cases],
        "ensure": None
        if verdict is None
        else {
            "condition": verdict.text,
            "holds": verdict.holds,
            "figures": {name: _measured(value) for name, value in verdict.figures.items()},
        },
        "left_out": [*found.left_out],
        "flags": sentences.flags(found),
        "records": str(found.folder),
    }


def _case(found: GateResult, case: GatedCase) -> dict[str, object]:
    verdict = case.verdict
    ratio = _measured(verdict.change)
    return {
        "case": case.name,
        "verdict": verdict.outcome,
        "ratio": ratio["value"],
        "ratio_low": ratio["low"],
        "ratio_high": ratio["high"],
        "rounds": verdict.rounds,
        "more_rounds": verdict.more_rounds,
        "rate": case.now.value,
        "rate_low": case.now.low,
        "rate_high": case.now.high,
        "baseline_rate": case.baseline.value,
        "baseline_rate_low": case.baseline.low,
        "baseline_rate_high": case.baseline.high,
        "reason": sentences.reason(found, case) or None,
    }


def _measured(value: Measured) -> dict[str, float | None]:
    """Return a figure with its interval; infinite ends are None."""
    ends = {"value": value.value, "low": value.low, "high": value.high}
    return {
        name: end if end is not None and math.isfinite(end) else None for name, end in ends.items()
    }
