"""Table of the rates of cases in several Pythons, with a column for each Python."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from offload.documents.rows import (
    Row,
    gil_enabled_by,
    python_name,
    rate_text,
    request_of,
    settings_of,
)
from offload.documents.text import TableLine, first_column, listing, render_table, shortened
from offload.engine.record import Record
from offload.flags import CANNOT_LOAD

GIL_ON = "GIL on"
MOST = 50  # characters of a case
NUMBER = re.compile(r"\d+(\.\d+)*")

Line = tuple[str, str, int, str]  # server, task, users, and its other settings and request


def table(rows: Sequence[Row]) -> str:
    """Render the rates of rows that were measured in several Pythons; empty for one Python."""
    names = {
        _requested_python(r.first): python_name(r.first) for r in rows if r.first.server.interpreter
    }
    cells: dict[Line, dict[str, str]] = {}
    for row in rows:
        column = _column(row.first, names)
        cells.setdefault(_free_line(cells, row.first, column), {})[column] = _cell(row)
    columns = sorted({column for line in cells.values() for column in line}, key=_version_key)
    if len(columns) < 2:
        return ""
    parts = [_part(cells, own) for own in _fitting(cells, columns)]
    return "\n\n".join(part for part in (*parts, listing([*_notes(rows)])) if part)


def _column(record: Record, names: Mapping[str, str]) -> str:
    """Return the Python of a record; without a start, the one that its name had in another row."""
    if record.server.interpreter:
        return python_name(record)  # 3.11 may be 3.11.9 on another machine
    requested = _requested_python(record)
    return names.get(requested, requested)


def _part(cells: Mapping[Line, Mapping[str, str]], columns: Sequence[str]) -> str:
    """Render the table of the Pythons in `columns`."""
    details = _details(cells)
    lines = [
        TableLine(
            (
                shortened(f"{line[0]}/{line[1]}", MOST, f"{line[0]}/"),
                str(line[2]),
                *(own.get(column, "-") for column in columns),
            ),
            details[line],
        )
        for line, own in cells.items()
    ]
    return render_table(("Case", "Users", *map(_head, columns)), lines)


def _line_of(record: Record) -> Line:
    """Return what the same case in other Pythons has, too."""
    case = record.case
    settings = settings_of(record).split(",")
    parts = [part for part in settings if not part.startswith("python=")]
    parts += ["keep_alive=yes"] if case.keep_alive else []
    parts += [request_of(record)]
    return case.server, case.task, case.users, " ".join(part for part in parts if part)


def _free_line(cells: Mapping[Line, Mapping[str, str]], record: Record, column: str) -> Line:
    """Return the line of a case, or an additional one if its cell in the column is taken.

    Two rows have the same cell if this program's Python was also requested by its version, or if
    the case was measured on two machines.
    """
    server, task, users, more = line = _line_of(record)
    name, number = f"{more} python={_requested_python(record)}".strip(), 1
    while column in cells.get(line, {}):
        line = server, task, users, name if number == 1 else f"{name} ({number})"
        number += 1
    return line


def _details(lines: Collection[Line]) -> dict[Line, str]:
    """Return the settings and the request of lines that differ only in them from another line."""
    count = Counter(line[:3] for line in lines)
    return {line: line[3] if count[line[:3]] > 1 else "" for line in lines}


def _fitting(
    cells: Mapping[Line, Mapping[str, str]], columns: Sequence[str]
) -> Iterator[list[str]]:
    """Divide the Pythons into groups whose tables are not too wide."""
    own: list[str] = []
    for column in columns:
        texts = [[_head(name), *(line.get(name, "-") for line in cells.values())] for name in own]
        texts.append([_head(column), *(line.get(column, "-") for line in cells.values())])
        first = max(len(f"{server}/{task}") for server, task, *_ in cells)
        if own and first_column([["Users"], *texts]) < min(first, MOST):
            yield own
            own = []
        own = [*own, column]
    yield own


def _head(column: str) -> str:
    return f"Python {column}"


def _version_key(name: str) -> tuple[list[int], str]:
    version = NUMBER.match(name)
    return ([int(part) for part in version[0].split(".")] if version else [], name)


def _requested_python(record: Record) -> str:
    """Return the requested interpreter, or the version of this program's interpreter."""
    return record.case.python or str(record.environment.get("python"))


def _cell(row: Row) -> str:
    if row.problem is not None:
        return "cannot load" if row.problem.kind == CANNOT_LOAD else "not available"
    mark = f"{GIL_ON}, " if gil_enabled_by(row.first) else ""
    return f"{mark}{rate_text(row)}"


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    """Yield reasons for cells without a rate, and in which Pythons the GIL was off or enabled."""
    free = {
        python_name(row.first)
        for row in rows
        if row.first.server.interpreter.get("gil_enabled") is False and row.problem is None
    }
    for name in sorted(free):
        yield f"Python {name}: the GIL was off after the load, except where noted."
    notes: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        first, importer = row.first, gil_enabled_by(row.first)
        note = (row.problem.text if row.problem else "") or (
            importer and f"{importer} turned the GIL on"
        )
        if note:
            notes.setdefault((_requested_python(first), note), []).append(
                f"{first.case.server}/{first.case.task}"
            )
    for (python, note), cases in notes.items():
        yield f"{', '.join(cases)} in {python}: {note}"
