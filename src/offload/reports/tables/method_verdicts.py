"""Table of the results of method and executor checks."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from offload.bench.experiments.method_check import CheckResult

OUTCOMES = {True: "passed", False: "failed", None: "unknown"}


def text(results: Sequence[CheckResult]) -> str:
    """Render the results."""
    lines = [
        (result.name, result.measured, result.required, OUTCOMES[result.passed])
        for result in results
    ]
    return tabulate(lines, ("Check", "Measured", "Required", ""), disable_numparse=True)
