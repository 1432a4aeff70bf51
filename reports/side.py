"""Side by side: the same rows in several Pythons, one column each."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from bench.record import Record
from reports import summary
from reports.rows import Row


def table(found: Sequence[Row], style: str = "simple") -> str:
    """Lay out the rates of rows that were measured in several Pythons; empty for one alone."""
    columns = sorted({label(row.first) for row in found if row.first.interpreter}, reverse=True)
    if len(columns) < 2:
        return ""
    cells: dict[tuple[object, ...], dict[str, str]] = {}
    for row in found:
        record = row.first
        line = cells.setdefault((record.server, record.task, record.users), {})
        line[label(record) if record.interpreter else _wanted(record, columns)] = _cell(row)
    lines = [
        (f"{server}/{task}", str(users), *(line.get(column, "-") for column in columns))
        for (server, task, users), line in cells.items()
    ]
    align = ("left", *("right",) * (len(columns) + 1))
    head = ("Case", "Users", *columns)
    return tabulate(lines, head, tablefmt=style, colalign=align, disable_numparse=True)


def label(record: Record) -> str:
    """Name the Python that a record was measured in, with its GIL's state after the load."""
    facts = record.interpreter
    build = "t" if facts.get("free_threaded_build") else ""
    state = "" if facts.get("gil_enabled") in (True, None) and not build else _gil(facts)
    return f"Python {facts.get('python')}{build}{state}"


def _gil(facts: object) -> str:
    enabled = facts.get("gil_enabled") if isinstance(facts, dict) else None
    return ", GIL" if enabled else ", no GIL"


def _wanted(record: Record, columns: Sequence[str]) -> str:
    """Guess the column of a row that never ran, from the interpreter that its command names."""
    wanted = record.command.partition("python=")[2].partition(",")[0]
    return next((column for column in columns if wanted and f" {wanted}" in column), wanted)


def _cell(row: Row) -> str:
    return "not available" if row.problem is not None else summary.rate(row)
