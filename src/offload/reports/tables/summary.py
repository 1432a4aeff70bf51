"""The summary table for a terminal, at most 100 characters wide, with definitions below it."""

from __future__ import annotations

from collections.abc import Sequence

from offload.documents import text_table
from offload.documents.text_table import Line
from offload.reports.rows import Row
from offload.reports.tables import formats

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
    most = text_table.first_column(columns)
    cells = [formats.first_cell(row.first, most) for row in rows]
    lines = [
        Line(
            (cells[n].first, *(column[n + 1] for column in columns)),
            _detail(row, cells[n].settings),
        )
        for n, row in enumerate(rows)
    ]
    return text_table.render([LABEL, *(column[0] for column in columns)], lines)


def definitions(rows: Sequence[Row]) -> str:
    """Define each column of the table in a line."""
    shown = [LABEL, *(column[0] for column in _columns(rows))]
    lines = [f"{name}: {DEFINITIONS[name]}." for name in shown]
    if any(row.first.case.asked_rate is not None for row in rows):
        lines.append(REQUESTED)
    return text_table.paragraphs(lines)


def _columns(rows: Sequence[Row]) -> list[list[str]]:
    """Return the columns after the first one, each with its head; omit columns without values."""
    columns = {
        "Users": [str(row.first.case.users) for row in rows],
        "Rate": [formats.rate(row) if row.problem is None else "not available" for row in rows],
        "Response": [formats.time(row.response_mean_s) for row in rows],
        "Memory": [formats.memory(row.memory_pss_mib) for row in rows],
        "GIL held": [formats.share(row.gil_hold) for row in rows],
    }
    always = ("Users", "Rate")
    for number, row in enumerate(rows):
        for name in columns.keys() - {*always} if row.problem is not None else ():
            columns[name][number] = "-"
    return [
        [name, *cells] for name, cells in columns.items() if name in always or {*cells} != {"-"}
    ]


def _detail(row: Row, settings: str) -> str:
    request, origin = formats.request_of(row.first), formats.origin_of(row.first)
    texts = (settings, request, origin, formats.load_settings(row))
    return "  ".join(text for text in texts if text)
