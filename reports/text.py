"""results.txt: every load tool's own output, then the summary table, then the GIL effects."""

from __future__ import annotations

from collections.abc import Sequence

from bench.record import Record
from reports import gil, summary
from reports.rows import rows

EXPLAINED = """\
Memory is PSS over the whole process tree, at its peak: pages that processes share count once.
Overflows are connections that the listen queue dropped; their users waited to connect again.
Ceiling = workers / time of one request alone: what a pool allows, whatever it is made of; not
known for tasks under 10 ms, whose time alone is mostly hops and wake-ups.
One visit a row, so no interval: differences below about 10 % may be noise."""


def results_txt(records: Sequence[Record]) -> str:
    """Render all records of a run."""
    outputs = [_output(record) for record in records]
    return "\n".join([*outputs, tables(records)])


def tables(records: Sequence[Record]) -> str:
    """Render the summary table, the notes and the GIL effects."""
    if not records:
        return "no records\n"
    kept = rows(records)
    parts = [summary.conditions(kept), summary.table(kept), summary.notes(kept)]
    if found := gil.effects(kept):
        parts += ["GIL effects: processes over threads", gil.table(found)]
    return "\n\n".join(part for part in [*parts, EXPLAINED] if part) + "\n"


def row(record: Record) -> str:
    """Render one load test."""
    return "\n\n".join(p for p in (summary.table([record]), summary.notes([record])) if p) + "\n"


def _output(record: Record) -> str:
    title = f"{record.command}   ({record.users} users, {record.driver or 'no load'})"
    said = record.output or record.problem or "no output"
    return f"{title}\n{'=' * len(title)}\n{said.rstrip()}\n"
