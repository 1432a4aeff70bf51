"""Table of the results of method and executor checks."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from lab.method.method_check import CheckResult

HEAD = ("Check", "Measured", "Required", "Result")
OUTCOMES = {True: "passed", False: "failed", None: "unknown"}


def text(results: Sequence[CheckResult]) -> str:
    """Render the results."""
    lines = [
        (result.name, result.measured, result.required, _outcome(result)) for result in results
    ]
    return tabulate(lines, HEAD, disable_numparse=True)


def _outcome(result: CheckResult) -> str:
    return OUTCOMES[result.passed] if result.is_required else "reported"
