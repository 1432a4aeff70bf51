"""The result of a gate as text of at most 100 columns."""

from __future__ import annotations

from offload.bench.experiments.gate import GateResult
from offload.documents import text_table
from offload.documents.text_table import Line
from offload.errors import escaped
from offload.reports.gate import sentences


def text(found: GateResult) -> str:
    """Render the verdict as a sentence, a table of the cases, and the remarks."""
    parts = [text_table.wrapped(sentences.headline(found)), _table(found)]
    if found.condition is not None:
        parts.append(text_table.wrapped(sentences.condition(found.condition)))
    parts.append("\n".join(text_table.wrapped(line) for line in sentences.remarks(found)))
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
    most = text_table.first_column([[*column] for column in zip(head[1:], *rows, strict=True)])
    lines = [
        Line((_name(case.name, most), *row), sentences.reason(found, case))
        for case, row in zip(found.cases, rows, strict=True)
    ]
    return text_table.render(head, lines)


def _name(case: str, most: int) -> str:
    """Return the name of a case, `most` characters wide at most: its task is shortened."""
    case = escaped(case)
    server, slash, _ = case.partition("/")
    return text_table.shortened(case, most, server + slash)
