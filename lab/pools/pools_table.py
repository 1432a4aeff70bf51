"""Tables that compare worker pools, one for each payload size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from lab.pools import run
from lab.pools.summary import REFERENCE, Cell
from offload import units
from offload.documents.text import TableLine, render_table, wrapped

HEAD = ("Pool", "Concurrency", "Tasks/s", "", "p50", "p99", "CPU a task", f"x {REFERENCE}", "")
STARTS = ("Pool", "Start", "Memory")


def text(cells: Sequence[Cell], lines: Sequence[run.Line], environment: str) -> str:
    """Render a table for each size, and one of the start of each pool."""
    parts = [wrapped(environment)]
    for size in dict.fromkeys(cell.size for cell in cells):
        rows = [cell for cell in cells if cell.size == size]
        rows.sort(key=lambda cell: (cell.concurrency, -cell.rate))
        parts.append(f"{size}\n\n{render_table(HEAD, [TableLine(_row(cell)) for cell in rows])}")
    starts = [
        (line["pool"], f"{1000 * line['start_s']:.0f} ms", _or_dash("{:.1f} MiB", _memory(line)))
        for line in lines
        if line["kind"] == "pool"
    ]
    parts.append(render_table(STARTS, [TableLine(cells) for cells in starts]))
    missing = [line["pool"] for line in lines if line["kind"] == "missing"]
    if missing:
        parts.append(wrapped(f"Not installed: {', '.join(missing)}."))
    return "\n\n".join(parts)


def as_dict(
    cells: Sequence[Cell], lines: Sequence[run.Line], environment: str
) -> dict[str, object]:
    """Return the data of `text`: the cells, the start of each pool, and the missing pools."""
    others = [line for line in lines if line["kind"] in {"pool", "missing"}]
    values = [asdict(cell) for cell in cells]
    return {"environment": environment, "cells": values, "pools": others}


def _row(cell: Cell) -> tuple[str, ...]:
    spread = None if cell.half_width is None else 100 * cell.half_width
    return (
        cell.pool,
        str(cell.concurrency),
        f"{cell.rate:.0f}" if cell.rate >= 100 else f"{cell.rate:.1f}",
        _or_dash("+-{:.0f} %", spread),
        _time(cell.p50_us),
        _time(cell.p99_us),
        "-" if cell.cpu_us is None else _time(cell.cpu_us),
        _or_dash("{:.2f}", cell.times),
        "" if cell.low is None or cell.high is None else units.interval(cell.low, cell.high),
    )


def _time(us: float) -> str:
    return f"{us:.0f} us" if us < 10_000 else f"{us / 1000:.1f} ms"


def _memory(line: run.Line) -> float | None:
    return line["memory_mib"] or None  # threads have no processes of their own


def _or_dash(form: str, value: float | None) -> str:
    return "-" if value is None else form.format(value)
