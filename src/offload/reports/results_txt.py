"""results.txt: the output of each load tool, the summary table and the GIL effects."""

from __future__ import annotations

from collections.abc import Sequence

from offload.bench.records.record import LONG, TEST, Record
from offload.reports import by_python, provenance, summary
from offload.reports.gil import effects
from offload.reports.rows import Row, rows

TERMINAL = 60  # lines of a tool's output that are printed
WIDE = 200  # characters of a line that are printed
EXPLAINED = """\
Rate is of completed requests a second, with its 95 % interval over visits, each of a fresh server
in a random order, loaded by builtin; "once" is one run without an interval. Beside it stands the
rate of the published tool's one contiguous run, of which availability is.
Response is the mean of a closed loop: users that wait ask no more. Ask fab run_load_test:rate= for
percentiles that an open loop would see.
Memory is PSS over the whole process tree, at its peak: pages that processes share count once.
Loop lag is by how much a 10 ms timer of the server's event loop was late under load, its p99; GIL
held is the share of one task alone in flight in which it had the GIL locked.
Overflows are connections that the listen queue dropped; their users waited to connect again.
Ceiling is the lowest of: pool, workers or slots / time that a task keeps one; users, users / time
of one request alone; cpu, cores / CPU time of a request. Behind it stands the share that was
reached."""


def results_txt(records: Sequence[Record]) -> str:
    """Render all records of a run."""
    outputs = [_output(record) for record in records if record.trial.kind in (LONG, TEST)]
    return "\n".join([*outputs, tables(records)])


def tables(records: Sequence[Record], style: str = "simple") -> str:
    """Render the summary tables, notes and GIL effects, one set for each provenance.

    `style` is "simple", or "rst" for reStructuredText.
    """
    all_rows = rows(records)
    groups = provenance.group_by_provenance(
        all_rows, lambda row: provenance.provenance_of(row.first)
    )
    if not groups:
        return "no records\n"
    parts = [part for group in groups for part in _table(group, style)]
    several = "Of several machines, Pythons or upstreams, each with a table of its own."
    parts = [by_python.table(all_rows, style), several if len(groups) > 1 else "", *parts]
    return "\n\n".join(part for part in [*parts, EXPLAINED] if part) + "\n"


def row(record: Record) -> str:
    """Render one load test."""
    [one] = rows([record])
    parts = (summary.table([one]), summary.percentiles(record), summary.notes([one]))
    return "\n\n".join(part for part in parts if part) + "\n"


def shortened(output: str | None) -> str:
    """Return a tool's output for a terminal: only its end, if it is long."""
    lines = [
        line if len(line) <= WIDE else f"{line[:WIDE]} ..." for line in (output or "").splitlines()
    ]
    if len(lines) <= TERMINAL:
        return "\n".join(lines)
    note = f"... {len(lines) - TERMINAL} more lines: the records have all of them ..."
    return "\n".join([note, *lines[-TERMINAL:]])


def _table(group: Sequence[Row], style: str) -> list[str]:
    parts = [summary.conditions(group), summary.table(group, style), summary.notes(group)]
    if gil_effects := effects.effects(group):
        parts += ["GIL effects: processes over threads", effects.table(gil_effects, style)]
    return [part for part in parts if part]


def _output(record: Record) -> str:
    title = (
        f"{summary.label(record)}   ({record.case.users} users, {record.load.driver or 'no load'})"
    )
    output = record.load.output or str(record.problem or "") or "no output"
    return f"{title}\n{'=' * len(title)}\n{output.rstrip()}\n"
