"""Format the cells of tables: the names of cases, and the figures and outcomes of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from offload import units
from offload.documents.text import WIDTH, shortened
from offload.engine.record import TEST, Record
from offload.reports.rows import Row
from offload.suites import Request
from offload.units import percent

MIN_HALF_WIDTH = 0.001  # smallest half-width that is shown
MS = 0.01  # s: shorter times are shown with a resolution of 10 us


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
    """Format the requested rate of a row, and all load settings of a single load test."""
    record = row.first
    requested = record.case.asked_rate
    rate = None if requested is None else f"{requested:.4g}/s requested"
    if record.trial.kind != TEST:
        return rate or ""
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


LEAST = "\u2265 "  # before a lower bound


def time_or_more(seconds: float | None, bound: float | None) -> str:
    """Format a time; from `bound` on, it is a lower bound because requests timed out."""
    is_bound = seconds is not None and bound is not None and seconds >= bound
    return f"{LEAST if is_bound else ''}{time(seconds)}"


def memory(mib: float | None) -> str:
    """Format an amount of memory."""
    return "-" if mib is None else f"{mib:.{1 if mib < 100 else 0}f} MiB"


def share(value: float | None, digits: int = 0) -> str:
    """Format a share in percent."""
    return "-" if value is None else percent(value, digits)


COMMAND = "run_server:"


def label(record: Record) -> str:
    """Return a case's label: its server command, and the request if it is not `/`."""
    request = request_of(record)
    return f"{record.case.command}  {request}" if request else record.case.command


def case_name(record: Record) -> str:
    """Return the server, task and settings of a case, as `offload run_server:` accepts them."""
    parts = (first_cell(record, WIDTH).first, request_of(record), origin_of(record))
    return " ".join(part for part in parts if part)


def origin_of(record: Record) -> str:
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


@dataclass(frozen=True)
class FirstCell:
    """The first cell of a row, and the settings that do not fit into it."""

    first: str
    settings: str


def first_cell(record: Record, most: int) -> FirstCell:
    """Return the first cell of a row, `most` characters wide at most."""
    if not record.case.command.startswith(COMMAND):
        return FirstCell(shortened(record.case.command, most), "")
    case, settings = f"{record.case.server},{record.case.task}", settings_of(record)
    whole = f"{case},{settings}" if settings else case
    if len(whole) <= most:
        return FirstCell(whole, "")
    return FirstCell(shortened(case, most, f"{record.case.server},"), settings)
