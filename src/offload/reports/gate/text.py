"""The result of a gate as text of at most 100 columns."""

from __future__ import annotations

from offload.bench.experiments.gate import GateResult
from offload.documents.text import TableLine, first_column, render_table, shortened, wrapped
from offload.errors import escaped
from offload.reports.gate import sentences


def text(found: GateResult) -> str:
    """Render the verdict as a sentence, a table of the cases, and the remarks."""
    parts = [wrapped(sentences.headline(found)), _table(found)]
    if found.condition is not None:
        parts.append(wrapped(sentences.condition(found.condition)))
    parts.append("\n".join(wrapped(line) for line in sentences.remarks(found)))
    return "\n\n".join([*parts, f"records: {found.folder}"])


def _table(found: GateResult) -> str:
    head = ["Case", "Baseline", "Now", "Change", "Verdict"]
    rows = [
        (
            sentences.rate(case.baseline),
            sentences.rate(case.now),
            sentences.change(case.verdict.change),
            case.verdict.outcome,
        )
        for case in found.cases
    ]
    most = first_column([[*column] for column in zip(head[1:], *rows, strict=True)])
    lines = [
        TableLine((_name(case.name, most), *row), sentences.reason(found, case))
        for case, row in zip(found.cases, rows, strict=True)
    ]
    return render_table(head, lines)


def _name(case: str, most: int) -> str:
    """Return the name of a case, `most` characters wide at most: its task is shortened."""
    case = escaped(case)
    server, slash, _ = case.partition("/")
    return shortened(case, most, server + slash)
