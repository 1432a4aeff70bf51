"""The table of a run: a summary of at most 100 columns, and a wide one with every figure."""

from __future__ import annotations

from collections.abc import Sequence

from offload import units
from offload.documents.rows import (
    Row,
    case_label,
    failures_text,
    first_cell,
    load_settings,
    memory_text,
    origin_of,
    rate_text,
    request_of,
    share_text,
    time_text,
)
from offload.documents.text import TableLine, first_column, paragraphs, render_table
from offload.reports import notes

LABEL = "Server,task"
DEFINITIONS = {
    LABEL: "the case; write it after offload run_server: to start its server",
    "Users": "each waits for a response before its next request",
    "Rate": "completed requests per second, with the 95 % interval over rounds of fresh servers",
    "Response": "the mean time of a request, including its wait for other requests",
    "Memory": "the peak memory of all processes of the server (PSS: shared pages count once)",
    "GIL held": "the share of the run time of a single task in which it holds the GIL",
}
REQUESTED = (
    "Requested: the rate at which requests were sent, whether or not others were answered; the "
    "users of such a row measured the capacity before."
)


def table(rows: Sequence[Row]) -> str:
    """Render the rows."""
    columns = _columns(rows)
    most = first_column(columns)
    cells = [first_cell(row.first, most) for row in rows]
    lines = [
        TableLine(
            (cells[n].first, *(column[n + 1] for column in columns)),
            _detail(row, cells[n].settings),
        )
        for n, row in enumerate(rows)
    ]
    return render_table([LABEL, *(column[0] for column in columns)], lines)


def definitions(rows: Sequence[Row]) -> str:
    """Define each column of the table in a line."""
    shown = [LABEL, *(column[0] for column in _columns(rows))]
    lines = [f"{name}: {DEFINITIONS[name]}." for name in shown]
    if any(row.first.case.asked_rate is not None for row in rows):
        lines.append(REQUESTED)
    return paragraphs(lines)


def _columns(rows: Sequence[Row]) -> list[list[str]]:
    """Return the columns after the first one, each with its head; omit columns without values."""
    columns = {
        "Users": [str(row.first.case.users) for row in rows],
        "Rate": [rate_text(row) if row.problem is None else "not available" for row in rows],
        "Response": [time_text(row.response_mean_s) for row in rows],
        "Memory": [memory_text(row.memory_pss_mib) for row in rows],
        "GIL held": [share_text(row.gil_hold) for row in rows],
    }
    always = ("Users", "Rate")
    for number, row in enumerate(rows):
        for name in columns.keys() - {*always} if row.problem is not None else ():
            columns[name][number] = "-"
    return [
        [name, *cells] for name, cells in columns.items() if name in always or {*cells} != {"-"}
    ]


def _detail(row: Row, settings: str) -> str:
    request, origin = request_of(row.first), origin_of(row.first)
    texts = (settings, request, origin, load_settings(row))
    return "  ".join(text for text in texts if text)


WIDE_HEAD = (
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
WIDE_EXPLAINED = """\
Published tool: the rate of its one contiguous run.
Availability: the share of finished requests that succeeded, in that run or, without one, in all
rounds.
Overflows: connections that the listen queue dropped; their users waited to connect again.
Loop lag: how late a 10 ms timer of the server's event loop was under load, p99.
Ceiling: the lowest known limit of the rate, and the share of it that was reached. pool: workers or
slots / time of a task; users: users / time of a single request; cpu: cores / CPU time."""


def wide_table(rows: Sequence[Row]) -> str:
    """Render the rows with all columns."""
    head = list(WIDE_HEAD)
    tools = {row.long.load.driver for row in rows if row.long and row.long.load.driver}
    head[3] = " and ".join(sorted(tools)) or WIDE_HEAD[3]
    return render_table(head, [TableLine(_wide_row(row)) for row in rows])


def wide_notes(rows: Sequence[Row]) -> str:
    """List the warnings of each row; empty if there are none."""
    lines = [
        f"* {case_label(row.first)}, {row.first.case.users} users: {note}"
        for row in rows
        for note in ([str(row.problem)] if row.problem else notes.row_warnings(row))
    ]
    return "\n".join(lines)


def _wide_row(row: Row) -> list[str]:
    settings = load_settings(row)
    label = case_label(row.first) + (f"  ({settings})" if settings else "")
    case = [label, str(row.first.case.users)]
    if row.problem is not None:
        return [*case, "not available", *("-",) * (len(WIDE_HEAD) - 3)]
    published = row.long.result.rate if row.long else None
    ceiling = row.ceiling
    return [
        *case,
        rate_text(row),
        "-" if published is None else units.number(published),
        share_text(row.availability, 2),
        time_text(row.response_mean_s),
        memory_text(row.memory_pss_mib),
        failures_text(row),
        "-" if row.listen_overflows is None else str(row.listen_overflows),
        "-" if row.loop_lag_p99_ms is None else f"{row.loop_lag_p99_ms:.1f} ms",
        share_text(row.gil_hold),
        "-"
        if ceiling is None
        else f"{ceiling.kind} {units.number(ceiling.rate)} {share_text(row.reached)}",
    ]
