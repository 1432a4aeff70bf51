"""The wide table: every figure of a row, and its own warnings."""

from __future__ import annotations

from collections.abc import Sequence

from offload.documents import text_table
from offload.documents.text_table import Line
from offload.reports import warnings
from offload.reports.rows import Row
from offload.reports.tables import formats

HEAD = (
    "Case",
    "Users",
    "Rate",
    "Published tool",
    "Availability",
    "Response",
    "Memory",
    "Failed",
    "Overflows",
    "Loop lag",
    "GIL held",
    "Ceiling",
)
EXPLAINED = """\
Published tool: the rate of its one contiguous run.
Availability: the share of finished requests that succeeded, in that run or, without one, in all
rounds.
Overflows: connections that the listen queue dropped; their users waited to connect again.
Loop lag: how late a 10 ms timer of the server's event loop was under load, p99.
Ceiling: the lowest known limit of the rate, and the share of it that was reached. pool: workers or
slots / time of a task; users: users / time of a single request; cpu: cores / CPU time."""


def table(rows: Sequence[Row]) -> str:
    """Render the rows with all columns."""
    head = list(HEAD)
    tools = {row.long.load.driver for row in rows if row.long and row.long.load.driver}
    head[3] = " and ".join(sorted(tools)) or HEAD[3]
    return text_table.render(head, [Line(_line(row)) for row in rows])


def notes(rows: Sequence[Row]) -> str:
    """List the warnings of each row; empty if there are none."""
    lines = [
        f"* {formats.label(row.first)}, {row.first.case.users} users: {note}"
        for row in rows
        for note in ([str(row.problem)] if row.problem else warnings.row_warnings(row))
    ]
    return "\n".join(lines)


def _line(row: Row) -> list[str]:
    settings = formats.load_settings(row)
    label = formats.label(row.first) + (f"  ({settings})" if settings else "")
    case = [label, str(row.first.case.users)]
    if row.problem is not None:
        return [*case, "not available", *("-",) * (len(HEAD) - 3)]
    published = row.long.result.rate if row.long else None
    ceiling = row.ceiling
    return [
        *case,
        formats.rate(row),
        "-" if published is None else formats.number(published),
        formats.share(row.availability, 2),
        formats.time(row.response_mean_s),
        formats.memory(row.memory_pss_mib),
        formats.kinds(row),
        "-" if row.listen_overflows is None else str(row.listen_overflows),
        "-" if row.loop_lag_p99_ms is None else f"{row.loop_lag_p99_ms:.1f} ms",
        formats.share(row.gil_hold),
        "-"
        if ceiling is None
        else f"{ceiling.kind} {formats.number(ceiling.rate)} {formats.share(row.reached)}",
    ]
