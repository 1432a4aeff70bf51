"""The rates of a gate in Bencher Metric Format, as the measure `throughput` of each case."""

from __future__ import annotations

import json

from offload.bench.experiments.gate import GateResult


def bencher(found: GateResult) -> str:
    """Render the current rates in requests/s, with 95 % intervals; unknown rates are omitted."""
    return (
        json.dumps(
            {
                case.name: {
                    "throughput": {
                        "value": case.now.value,
                        **({} if case.now.low is None else {"lower_value": case.now.low}),
                        **({} if case.now.high is None else {"upper_value": case.now.high}),
                    }
                }
                for case in found.cases
                if case.now.value is not None
            },
            indent=2,
        )
        + "\n"
    )
