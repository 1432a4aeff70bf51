"""The summary table for a terminal, at most 100 characters wide, with definitions below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from offload import units
from offload.bench.records.record import TEST, Record
from offload.bench.telemetry.host import sentence
from offload.reports import provenance
from offload.reports.rows import Row
from offload.reports.tables import text_table
from offload.reports.tables.text_table import Line
from offload.suites import Request
from offload.units import percent

LABEL = "Server,task"
COMMAND = "fab run_server:"
DEFINITIONS = {
    LABEL: "the case; write it after fab run_server: to start its server",
    "Users": "each sends its next request as soon as it has its answer",
    "Rate": "completed requests per second, with the 95 % interval over rounds of fresh servers",
    "Response": "the mean time of a request, including its wait for other requests",
    "Memory": "the peak memory of all processes of the server (PSS: shared pages count once)",
    "GIL held": "the share of the run time of a single task in which it holds the GIL",
}
MIN_HALF_WIDTH = 0.001  # smallest half-width that is shown
MS = 0.01  # s: shorter times are shown with a resolution of 10 us


def table(rows: Sequence[Row], style: str = "simple") -> str:
    """Render the rows; `style` is "simple", or "rst" for a README."""
    columns = _columns(rows)
    most = text_table.first_column(columns)
    labels = [_labels(row.first, most) for row in rows]
    lines = [
        Line(
            (labels[n].first, *(column[n + 1] for column in columns)),
            _detail(row, labels[n].settings, style),
        )
        for n, row in enumerate(rows)
    ]
    return text_table.render([LABEL, *(column[0] for column in columns)], lines, style)


def definitions(rows: Sequence[Row], style: str = "simple") -> str:
    """Define each column of the table in a line."""
    shown = [LABEL, *(column[0] for column in _columns(rows))]
    lines = [f"{name}: {DEFINITIONS[name]}." for name in shown]
    return text_table.paragraphs(lines, style)


def conditions(rows: Sequence[Row]) -> str:
    """Describe when, where and with which tools the rows were measured."""
    return f"{where(rows)}\n{how(rows)}".strip()


def where(rows: Sequence[Row]) -> str:
    """Describe when and where the rows were measured, and the size of their pools."""
    lines = [text_table.wrapped(when(rows))]
    if pools := _pools([record for row in rows for record in row.records]):
        lines.append(pools)
    return "\n".join(lines)


def when(rows: Sequence[Row]) -> str:
    """Return a sentence with the time of the first record and the machine."""
    day = rows[0].records[0].trial.utc[:16].replace("T", " ")
    return f"Measured {day} UTC on {_machine(rows)}."


def how(rows: Sequence[Row]) -> str:
    """Describe the load tools and the upstreams of the rows."""
    records = [record for row in rows for record in row.records]
    tools = sorted(
        {f"{r.load.driver} {r.load.version or ''}".strip() for r in records if r.load.driver}
    )
    upstreams = sorted({str(r.case.upstream["kind"]) for r in records if r.case.upstream})
    kept = {record.case.keep_alive for record in records if record.load.driver}
    how = {frozenset({True}): "connections kept", frozenset({False}): "one connection per request"}
    lines = []
    if tools:
        lines.append(f"Load: {', '.join(tools)}; {how.get(frozenset(kept), 'of both kinds')}.")
    if upstreams:
        lines.append(f"Network tasks fetched from {', '.join(upstreams)} on the same machine.")
    return "\n".join(text_table.wrapped(line) for line in lines)


def label(record: Record, literal: str = "") -> str:
    """Return a case's label: its server command, and the request if it is not `/`."""
    command = f"{literal}{record.case.command}{literal}"
    request = request_of(record)
    return f"{command}  {literal}{request}{literal}" if request else command


def case_name(record: Record) -> str:
    """Return the server, task and settings of a case, as `fab run_server:` accepts them."""
    parts = (_labels(record, text_table.WIDTH).first, request_of(record), _origin(record))
    return " ".join(part for part in parts if part)


def _origin(record: Record) -> str:
    """Return the origin of the server, if it is not the checkout that runs this program."""
    return f"from {record.case.origin}" if record.case.origin else ""


def settings_of(record: Record) -> str:
    """Return the settings in the command of a case: `workers=8`."""
    if not record.case.command.startswith(COMMAND):
        return ""
    return record.case.command.partition(",")[2].removeprefix(record.case.task).strip(",")


def request_of(record: Record) -> str:
    """Return the short form of a case's request; empty for `GET /`."""
    if not record.case.request:
        return ""
    fields: dict[str, Any] = dict(record.case.request)
    return Request(**fields).short_form


def kinds(row: Row) -> str:
    """Format the failed requests by kind: `3 timeout, 1 5xx`."""
    parts = [f"{count} {kind}" for kind, count in row.failed.items()]
    return ", ".join(parts) or ("0" if row.completed is not None else "-")


def percentiles(record: Record) -> str:
    """Format the response times of one load with its load model; empty if unknown.

    Requests that timed out are counted with their timeout: such times are lower bounds.
    """
    names = {"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "p999": "p99.9", "max": "max"}
    response = record.result.response
    known = [
        f"{shown} {'>= ' if response.is_bound(value) else ''}{time(value)}"
        for name, shown in names.items()
        if (value := getattr(response, f"{name}_s")) is not None
    ]
    if len(known) < len(names):  # siege reports only the maximum
        return ""
    since = (
        "from the intended start"
        if record.load.model == "open"
        else "waiting users send no requests"
    )
    return f"Response times, {record.load.model} loop ({since}): {', '.join(known)}"


def outcome(record: Record) -> str:
    """Describe how the requests of one load ended: `300 completed, failed: 3 timeout`."""
    result = record.result
    if result.completed is None:
        return ""
    failed = [f"{count} {kind}" for kind, count in result.failed.items() if count]
    share_text = ""
    if result.availability is not None:
        share_text = f"; availability {percent(result.availability, 2)}"
    return f"{result.completed} completed, failed: {', '.join(failed) or 'none'}{share_text}"


def rate(row: Row) -> str:
    """Format a rate with its interval, `14.27 +-0.4 %`; one run has none: `14.27 once`."""
    if row.rate is None:
        return "-"
    estimate = row.estimate
    if estimate is None or estimate.half_width is None:
        return f"{number(row.rate)} once"
    width = max(estimate.half_width, MIN_HALF_WIDTH) * 100
    return f"{number(row.rate)} +-{width:.{1 if width < 10 else 0}f} %"


def load_settings(row: Row) -> str:
    """Format the load settings of a single load test; empty for rows of a benchmark."""
    record = row.first
    if record.trial.kind != TEST:
        return ""
    rate = None if record.case.asked_rate is None else f"{record.case.asked_rate:g}/s requested"
    think = f"think {record.case.think_s:g} s" if record.case.think_s else None
    parts = (record.load.driver, rate, think, "kept" if record.case.keep_alive else None)
    return ", ".join(part for part in parts if part)


def number(rate: float) -> str:
    """Format a rate with up to two decimal places: `14.27`, `142.7`, `1427`."""
    return units.number(rate)


def time(seconds: float | None) -> str:
    """Format a time in s or ms."""
    if seconds is None:
        return "-"
    if seconds >= 0.1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.{1 if seconds >= MS else 2}f} ms"


def memory(mib: float | None) -> str:
    """Format an amount of memory."""
    return "-" if mib is None else f"{mib:.{1 if mib < 100 else 0}f} MiB"


def share(value: float | None, digits: int = 0) -> str:
    """Format a share in percent."""
    return "-" if value is None else percent(value, digits)


@dataclass(frozen=True)
class _Label:
    """The first cell of a row, and the settings that do not fit into it."""

    first: str
    settings: str


def _labels(record: Record, most: int) -> _Label:
    if not record.case.command.startswith(COMMAND):
        return _Label(text_table.shortened(record.case.command, most), "")
    case, settings = f"{record.case.server},{record.case.task}", settings_of(record)
    whole = f"{case},{settings}" if settings else case
    if len(whole) <= most:
        return _Label(whole, "")
    return _Label(text_table.shortened(case, most), settings)


def _columns(rows: Sequence[Row]) -> list[list[str]]:
    """Return the columns after the first one, each with its head; omit columns without values."""
    columns = {
        "Users": [str(row.first.case.users) for row in rows],
        "Rate": [rate(row) if row.problem is None else "not available" for row in rows],
        "Response": [time(row.response_mean_s) for row in rows],
        "Memory": [memory(row.memory_pss_mib) for row in rows],
        "GIL held": [share(row.gil_hold) for row in rows],
    }
    always = ("Users", "Rate")
    for number, row in enumerate(rows):
        for name in columns.keys() - {*always} if row.problem is not None else ():
            columns[name][number] = "-"
    return [
        [name, *cells] for name, cells in columns.items() if name in always or {*cells} != {"-"}
    ]


def _detail(row: Row, settings: str, style: str) -> str:
    mark = "``" if style == text_table.RST else ""
    texts = (settings, request_of(row.first), _origin(row.first))
    literal = [f"{mark}{text}{mark}" for text in texts if text]
    return "  ".join([*literal, *([load] if (load := load_settings(row)) else [])])


def _pools(records: Sequence[Record]) -> str:
    """Describe the sizes of the pools in relation to the number of cores."""
    workers = sorted({r.server.workers for r in records if r.server.workers})
    if not workers:
        return ""
    sizes = f"Pools of {', '.join(map(str, workers))} workers"
    cores = records[0].environment.get("cores")
    if not isinstance(cores, int):
        return f"{sizes}."
    on = f"{sizes} on {cores} cores"
    if max(workers) > cores:
        return f"{on}: the workers share the cores."
    return f"{on}: fewer workers than cores." if max(workers) < cores else f"{on}."


def _machine(rows: Sequence[Row]) -> str:
    facts = next((dict(r.environment) for row in rows for r in row.records if r.environment), None)
    if facts is None:
        return "an unknown machine"
    served = next((r for row in rows for r in row.records if r.server.interpreter), None)
    return sentence(
        facts if served is None else {**facts, "python": provenance.python_after_load(served)}
    )
