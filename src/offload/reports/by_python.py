"""Side by side: the same rows in several Pythons, one column each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tabulate import tabulate

from offload.bench.records.record import Record
from offload.flags import CANNOT_LOAD
from offload.reports import provenance, summary
from offload.reports.rows import Row

GIL_ON = "GIL on"
NUMBER = re.compile(r"\d+(\.\d+)*")

Line = tuple[str, str, int]  # server, task, users


def table(found: Sequence[Row], style: str = "simple") -> str:
    """Lay out the rates of rows that were measured in several Pythons; empty for one alone."""
    names = {_wanted(row.first): _wanted(row.first) for row in found}
    names |= {
        _wanted(r.first): provenance.python(r.first) for r in found if r.first.server.interpreter
    }
    columns = sorted({*names.values()}, key=_age)
    if len(columns) < 2:
        return ""
    cells: dict[Line, dict[str, str]] = {}
    for row in found:
        first = row.first
        line = cells.setdefault((first.case.server, first.case.task, first.case.users), {})
        line[names[_wanted(first)]] = _cell(row)
    lines = [
        (f"{server}/{task}", str(users), *(line.get(column, "-") for column in columns))
        for (server, task, users), line in cells.items()
    ]
    align = ("left", *("right",) * (len(columns) + 1))
    head = ("Case", "Users", *(f"Python {column}" for column in columns))
    laid = tabulate(lines, head, tablefmt=style, colalign=align, disable_numparse=True)
    return "\n\n".join(part for part in (laid, "\n".join(_notes(found))) if part)


def _age(name: str) -> tuple[list[int], str]:
    version = NUMBER.match(name)
    return ([int(part) for part in version[0].split(".")] if version else [], name)


def _wanted(record: Record) -> str:
    """Return the name of its interpreter; without one it is the bench's."""
    return record.case.python or str(record.environment.get("python"))


def _cell(row: Row) -> str:
    if row.problem is not None:
        return "cannot load" if row.problem.kind == CANNOT_LOAD else "not available"
    mark = f"{GIL_ON}, " if provenance.gil_came_on(row.first) else ""
    return f"{mark}{summary.rate(row)}"


def _notes(found: Sequence[Row]) -> Iterator[str]:
    """Say why cells have no rate, and who turned a GIL on; and that the others were looked at."""
    free = {
        provenance.python(row.first)
        for row in found
        if row.first.server.interpreter.get("gil_enabled") is False and row.problem is None
    }
    for name in sorted(free):
        yield f"* Python {name}: the GIL was off after the load in all rows that do not say else."
    why: dict[tuple[str, str], list[str]] = {}
    for row in found:
        first, who = row.first, provenance.gil_came_on(row.first)
        said = (row.problem.text if row.problem else "") or (who and f"{who} turned the GIL on")
        if said:
            why.setdefault((_wanted(first), said), []).append(
                f"{first.case.server}/{first.case.task}"
            )
    for (python, said), cases in why.items():
        yield f"* {', '.join(cases)} in {python}: {said}"
