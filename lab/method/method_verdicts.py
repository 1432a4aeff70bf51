"""Table of the results of method and executor checks."""

from __future__ import annotations

from collections.abc import Sequence

from lab.method.method_check import CheckResult
from offload.documents.text import TableLine, render_table

HEAD = ("Check", "Measured", "Required", "Result")
OUTCOMES = {True: "passed", False: "failed", None: "unknown"}


def text(results: Sequence[CheckResult]) -> str:
    """Render the results."""
    lines = [TableLine((one.name, one.measured, one.required, _outcome(one))) for one in results]
    return render_table(HEAD, lines, left=len(HEAD))


def _outcome(result: CheckResult) -> str:
    return OUTCOMES[result.passed] if result.is_required else "reported"
