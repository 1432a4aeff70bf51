"""results.txt: the output of each load tool, the GIL effects and the summary table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from offload.documents.rows import (
    Row,
    case_label,
    comparable_groups,
    measured_how,
    measured_where,
    outcome_text,
    percentiles_text,
    rows,
)
from offload.documents.text import listing, paragraphs, wrapped
from offload.engine import journal
from offload.engine.record import LONG, TEST, Record
from offload.errors import printable
from offload.reports import comparison, notes, variables
from offload.reports.gil import effects
from offload.reports.tables import by_python, summary


def publish(folder: Path, records: Sequence[Record]) -> Path:
    """Write a run's results.txt and its copy in results/; return the path in the run's folder."""
    text = printable(results_txt(records))  # the name of a file may have any bytes
    own = folder / "results.txt"
    for path in (own, journal.RESULTS / "results.txt"):
        journal.replace(path, text)
    return own


TERMINAL = 60  # lines of a tool's output that are printed
WIDE = 200  # characters of a line that are printed
EFFECTS = "GIL effects: processes over threads"
RATES = "Rates"
MORE = "Every figure of these rows: offload report wide=yes."


def results_txt(records: Sequence[Record]) -> str:
    """Render all records of a run."""
    printed = [
        record
        for record in records
        if record.trial.kind in (LONG, TEST) and (record.load.output is not None or record.problem)
    ]
    outputs = [_output(record) for record in printed]
    return "\n".join([*outputs, tables(records)])


def tables(records: Sequence[Record], is_wide: bool = False, is_answered: bool = False) -> str:
    """Render the GIL effects, the rows and the notes, separately for each provenance.

    The table of rows has at most 100 columns, or with `is_wide` every figure that the records have.
    With `is_answered` the comparison of two cases is left out, because it is above the tables.
    """
    all_rows = rows(records)
    groups = comparable_groups(all_rows)
    if not groups:
        return "no records\n"
    parts = [part for group in groups for part in _table(group, is_wide)]
    several = "The records are of several machines, Pythons or upstreams; each has its own table."
    parts = [
        "" if is_answered else comparison.of_run(records),
        effects.on_and_off_table(effects.on_and_off_pairs(all_rows)),
        by_python.table(all_rows),
        several if len(groups) > 1 else "",
        *parts,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def row(record: Record) -> str:
    """Render one load test."""
    [one] = rows([record])
    parts = (
        summary.table([one]),
        outcome_text(record),
        wrapped(percentiles_text(record)),
        listing([str(one.problem)] if one.problem else notes.row_warnings(one)),
    )
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


def _table(group: Sequence[Row], is_wide: bool) -> list[str]:
    parts = [measured_where(group)]
    found = effects.effects(group)
    if found:
        parts += [EFFECTS, effects.table(found), effects.definitions()]
    if is_wide:
        explained = paragraphs(summary.WIDE_EXPLAINED.splitlines())
        parts += [summary.wide_table(group), summary.definitions(group), explained]
        parts += [measured_how(group), summary.wide_notes(group)]
    else:
        parts += [RATES if found else "", summary.table(group)]
        parts += [f"{summary.definitions(group)}\n{MORE}"]
        parts += [measured_how(group)]
        noted = [*notes.of_table(group), *effects.remedies(found)]
        if noted:
            parts += ["Noted once for all rows:", listing(noted)]
    if differences := variables.sentences(group):
        parts += ["Rows that differ in more than one variable:", listing(differences)]
    return [part for part in parts if part]


def _output(record: Record) -> str:
    title = f"{case_label(record)}   ({record.case.users} users, {record.load.driver or 'no load'})"
    output = record.load.output or str(record.problem or "") or "no output"
    return f"{title}\n{'=' * len(title)}\n{output.rstrip()}\n"
