"""The summary table, as text for a terminal or as reStructuredText."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from offload.bench.records.record import TEST, Record
from offload.bench.telemetry.host import sentence
from offload.reports import provenance, warnings
from offload.reports.rows import Row
from offload.suites import Request

HEAD = (
    "Task",
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
MIN_HALF_WIDTH = 0.001  # narrower ones are shown as this
MS = 0.01  # s: shorter times are shown with a resolution of 10 us
ALIGN = ("left", *("right",) * (len(HEAD) - 1))


def table(rows: Sequence[Row], style: str = "simple") -> str:
    """Render the rows; `style` is a tabulate format: "simple", or "rst" for a README."""
    literal = "``" if style == "rst" else ""
    head = list(HEAD)
    tools = {row.long.load.driver for row in rows if row.long and row.long.load.driver}
    head[3] = " and ".join(sorted(tools)) or HEAD[3]
    lines = [_line(row, literal) for row in rows]
    return tabulate(lines, head, tablefmt=style, colalign=ALIGN, disable_numparse=True)


def conditions(rows: Sequence[Row]) -> str:
    """Describe in a few lines when, where and with what the rows were measured."""
    records = [record for row in rows for record in row.records]
    tools = sorted(
        {f"{r.load.driver} {r.load.version or ''}".strip() for r in records if r.load.driver}
    )
    workers = sorted({r.server.workers for r in records if r.server.workers})
    upstreams = sorted({str(r.case.upstream["kind"]) for r in records if r.case.upstream})
    kept = {record.case.keep_alive for record in records if record.load.driver}
    how = {frozenset({True}): "connections kept", frozenset({False}): "a connection a request"}
    lines = [f"Measured {records[0].trial.utc[:16].replace('T', ' ')} UTC on {_machine(rows)}."]
    if tools:
        lines.append(f"Load: {', '.join(tools)}; {how.get(frozenset(kept), 'of both kinds')}.")
    if workers:
        lines.append(f"Pools of {', '.join(map(str, workers))} workers.")
    if upstreams:
        lines.append(f"Network tasks fetched from {', '.join(upstreams)} on the same machine.")
    return "\n".join(lines)


def notes(rows: Sequence[Row]) -> str:
    """List the warnings of each row; empty if there are none."""
    lines = [
        f"* {label(row.first)}, {row.first.case.users} users: {note}"
        for row in rows
        for note in ([str(row.problem)] if row.problem else warnings.row_warnings(row))
    ]
    return "\n".join(lines)


def label(record: Record, literal: str = "") -> str:
    """Return a case's label: its server command, and the request if it is not `/`."""
    command = f"{literal}{record.case.command}{literal}"
    if not record.case.request:
        return command
    fields: dict[str, Any] = dict(record.case.request)
    return f"{command}  {literal}{Request(**fields).short_form}{literal}"


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
    unanswered = math.inf if response.at_least_s is None else response.at_least_s
    known = [
        f"{shown} {'>= ' if value >= unanswered else ''}{_time(value)}"
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


def rate(row: Row) -> str:
    """Format a rate with its interval: `14.27 +-0.4 %`, or `14.27 unresolved +-3.1 %`."""
    if row.rate is None:
        return "-"
    estimate = row.estimate
    if estimate is None or estimate.value is None:
        return f"{row.rate:.{_digits(row.rate)}f} once"
    width = (
        ""
        if estimate.half_width is None
        else f"+-{max(estimate.half_width, MIN_HALF_WIDTH) * 100:.1f} %"
    )
    parts = (f"{row.rate:.{_digits(row.rate)}f}", "" if estimate.resolved else "unresolved", width)
    return " ".join(part for part in parts if part)


def _line(row: Row, literal: str) -> list[str]:
    task = [f"{label(row.first, literal)}{_load_settings(row)}", str(row.first.case.users)]
    if row.problem is not None:
        return [*task, "not available", *("-",) * (len(HEAD) - 3)]
    published = row.long.result.rate if row.long else None
    ceiling = row.ceiling
    return [
        *task,
        rate(row),
        "-" if published is None else f"{published:.{_digits(published)}f}",
        _number(row.availability, "%", 2, 100.0),
        _time(row.response_mean_s),
        _number(row.memory_pss_mib, "MiB", 1),
        kinds(row),
        _number(row.listen_overflows, "", 0),
        _number(row.loop_lag_p99_ms, "ms", 1),
        _number(row.gil_hold, "", 2),
        "-"
        if ceiling is None
        else f"{ceiling.kind} {ceiling.rate:.{_digits(ceiling.rate)}f} {row.reached or 0:.0%}",
    ]


def _load_settings(row: Row) -> str:
    """Format the load settings of a manual load test; rows of a benchmark share theirs."""
    record = row.first
    if record.trial.kind != TEST:
        return ""
    rate = None if record.case.asked_rate is None else f"{record.case.asked_rate:g}/s requested"
    think = f"think {record.case.think_s:g} s" if record.case.think_s else None
    parts = (record.load.driver, rate, think, "kept" if record.case.keep_alive else None)
    return f"  ({', '.join(part for part in parts if part)})"


def _machine(rows: Sequence[Row]) -> str:
    facts = next((dict(r.environment) for row in rows for r in row.records if r.environment), None)
    if facts is None:
        return "an unknown machine"
    served = next((r for row in rows for r in row.records if r.server.interpreter), None)
    return sentence(
        facts if served is None else {**facts, "python": provenance.python_after_load(served)}
    )


def _digits(rate: float) -> int:
    return 2 if rate < 100 else 1 if rate < 1000 else 0


def _time(seconds: float | None) -> str:
    if seconds is None or seconds >= 0.1:
        return _number(seconds, "s")
    return _number(seconds, "ms", 1 if seconds >= MS else 2, 1000.0)


def _number(value: float | None, unit: str, digits: int = 2, scale: float = 1.0) -> str:
    return "-" if value is None else f"{value * scale:.{digits}f} {unit}".rstrip()
