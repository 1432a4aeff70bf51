"""The summary table: one row a case, as text for a terminal or as reStructuredText."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate

from bench.environment import sentence
from bench.record import Record

HEAD = (
    "Task",
    "Users",
    "Availability",
    "Transaction rate",
    "Response time",
    "Memory",
    "Failed",
    "Overflows",
)
MS = 0.01  # s: times below it show 10 us
ALIGN = ("left", *("right",) * (len(HEAD) - 1))


def table(records: Sequence[Record], style: str = "simple") -> str:
    """Lay the records out; `style` is a name of tabulate's: "simple", or "rst" for a README."""
    literal = "``" if style == "rst" else ""
    lines = [_line(record, literal) for record in records]
    return tabulate(lines, HEAD, tablefmt=style, colalign=ALIGN, disable_numparse=True)


def conditions(records: Sequence[Record]) -> str:
    """Say in a few lines when, where and with what the records were measured."""
    first = records[0]
    tools = sorted({f"{r.driver} {r.driver_version or ''}".strip() for r in records if r.driver})
    workers = sorted({r.workers for r in records if r.workers})
    upstreams = sorted({str(r.upstream["kind"]) for r in records if r.upstream})
    lines = [f"Measured {first.utc[:16].replace('T', ' ')} UTC"]
    machine = next((r.environment for r in records if r.environment), None)
    if machine is not None:
        lines[0] += f" on {sentence(dict(machine))}."
    kept = {record.keep_alive for record in records if record.driver}
    how = {frozenset({True}): "connections kept", frozenset({False}): "a connection a request"}
    lines.append(
        f"Load: {', '.join(tools) or 'none'}; {how.get(frozenset(kept), 'of both kinds')}."
    )
    most = max(record.users for record in records)
    cut = [r for r in records if r.workers is None and r.users < most and r.suite]
    if cut:
        names = " and ".join(sorted({r.server for r in cut}))
        lines.append(
            f"{cut[0].users} users instead of {most} on {names}, where each waits for all."
        )
    if workers:
        lines.append(f"Pools of {', '.join(map(str, workers))} workers.")
    if upstreams:
        lines.append(f"Network tasks fetched from {', '.join(upstreams)} on the same machine.")
    return "\n".join(lines)


def notes(records: Sequence[Record]) -> str:
    """List what to doubt, row by row; empty when there is nothing."""
    lines = [
        f"* {record.command}, {record.users} users: {note}"
        for record in records
        for note in ([record.problem] if record.problem else record.flags)
    ]
    return "\n".join(lines)


def kinds(record: Record) -> str:
    """Word the failed requests by kind: `3 timeout, 1 5xx`; unknown counts are passed over."""
    words = [f"{n} {kind}" for kind, n in record.failed.items() if n and kind != "unfinished"]
    return ", ".join(words) or ("0" if record.completed is not None else "-")


def _line(record: Record, literal: str) -> list[str]:
    command = f"{literal}{record.command}{literal}"
    if record.problem is not None:
        unknown = ("-",) * 3
        return [command, str(record.users), "not available", *unknown, kinds(record), "-"]
    return [
        command,
        str(record.users),
        _number(record.availability, "%", 2, 100.0),
        _number(record.rate, "trans/s"),
        _time(record.response_mean_s),
        _number(record.memory_pss_mib, "MiB", 1),
        kinds(record),
        _number(record.listen_overflows, "", 0),
    ]


def _time(seconds: float | None) -> str:
    if seconds is None or seconds >= 0.1:
        return _number(seconds, "s")
    return _number(seconds, "ms", 1 if seconds >= MS else 2, 1000.0)


def _number(value: float | None, unit: str, digits: int = 2, scale: float = 1.0) -> str:
    return "-" if value is None else f"{value * scale:.{digits}f} {unit}".rstrip()
