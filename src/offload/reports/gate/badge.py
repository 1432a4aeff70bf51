"""The result of a gate as the endpoint JSON of a shields.io badge."""

from __future__ import annotations

import json

from offload.bench.experiments.gate import PASSED, RED, GateResult
from offload.reports.gate import sentences

COLORS = {PASSED: "brightgreen", RED: "red"}
UNDECIDED_COLOR = "lightgrey"


def badge(found: GateResult) -> str:
    """Render the result as a short message."""
    limit = sentences.limit_of(found)
    messages = {PASSED: f"no loss above {limit}", RED: _red(found)}
    return (
        json.dumps(
            {
                "schemaVersion": 1,
                "label": "rate",
                "message": messages.get(found.outcome, "undecided"),
                "color": COLORS.get(found.outcome, UNDECIDED_COLOR),
                "isError": found.outcome == RED,
            }
        )
        + "\n"
    )


def _red(found: GateResult) -> str:
    if not found.failed:
        return "condition does not hold"
    state = "slower" if sentences.has_lost(found) else "failed"
    return f"{len(found.failed)} of {len(found.cases)} cases {state}"
