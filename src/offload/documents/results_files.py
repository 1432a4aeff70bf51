"""The results of a run: results.txt with its tables, and JSON for programs.

results.txt has the output of each load tool, the GIL effects, the rows and the notes. The JSON is
described by results.schema.json: rates in requests/s, times in s, memory in MiB, null if unknown.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from offload.causes import diagnosis
from offload.documents import comparisons, notes
from offload.documents.comparisons import Effect
from offload.documents.rows import (
    Row,
    case_label,
    comparable_groups,
    first_cell,
    gil_enabled_by,
    load_settings,
    measured_how,
    measured_where,
    memory_text,
    origin_of,
    outcome_text,
    percentiles_text,
    python_name,
    rate_text,
    request_of,
    rows,
    settings_of,
    share_text,
    time_text,
)
from offload.documents.text import (
    TableLine,
    first_column,
    listing,
    paragraphs,
    render_table,
    shortened,
    wrapped,
)
from offload.engine import journal
from offload.engine.figures import Comparison, rate_of, speed_change
from offload.engine.record import LONG, TEST, Record, average_by_round, select_for_rate
from offload.errors import CANNOT_LOAD, printable
from offload.units import CASE, GIL_HELD, MEMORY, RATE, RESPONSE, USERS


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
MORE = "More figures of these rows: offload report format=html, or format=json."


def results_txt(records: Sequence[Record]) -> str:
    """Render all records of a run."""
    printed = [
        record
        for record in records
        if record.trial.kind in (LONG, TEST) and (record.load.output is not None or record.problem)
    ]
    outputs = [_output(record) for record in printed]
    return "\n".join([*outputs, tables(records)])


def tables(records: Sequence[Record], is_answered: bool = False) -> str:
    """Render the GIL effects, the rows and the notes, separately for each provenance.

    With `is_answered` the comparison of two cases is left out, because it is above the tables.
    """
    all_rows = rows(records)
    groups = comparable_groups(all_rows)
    if not groups:
        return "no records\n"
    parts = [part for group in groups for part in _table(group)]
    several = "The records are of several machines, Pythons or upstreams; each has its own table."
    parts = [
        "" if is_answered else comparisons.verdict_text(records),
        comparisons.on_and_off_table(comparisons.on_and_off_pairs(all_rows)),
        python_table(all_rows),
        several if len(groups) > 1 else "",
        *parts,
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def load_test_text(record: Record) -> str:
    """Render one load test."""
    [one] = rows([record])
    parts = (
        summary_table([one]),
        outcome_text(record),
        wrapped(percentiles_text(record)),
        listing([str(one.problem)] if one.problem else notes.row_warnings(one)),
        wrapped(notes.light_route_note([record]) or ""),
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def shortened_output(output: str | None) -> str:
    """Return a tool's output for a terminal: only its end, if it is long."""
    lines = [
        line if len(line) <= WIDE else f"{line[:WIDE]} ..." for line in (output or "").splitlines()
    ]
    if len(lines) <= TERMINAL:
        return "\n".join(lines)
    note = f"... {len(lines) - TERMINAL} more lines: the records have all of them ..."
    return "\n".join([note, *lines[-TERMINAL:]])


def _table(group: Sequence[Row]) -> list[str]:
    parts = [measured_where(group)]
    found = comparisons.effects(group)
    if found:
        parts += [EFFECTS, comparisons.effects_table(found), comparisons.effects_definitions()]
    parts += [RATES if found else "", summary_table(group)]
    parts += [f"{summary_definitions(group)}\n{MORE}", measured_how(group)]
    noted = [*notes.collect_notes(group), *comparisons.effect_remedies(found)]
    if noted:
        parts += ["Noted once for all rows:", listing(noted)]
    if differences := notes.confounded(group):
        parts += ["Rows that differ in more than one variable:", listing(differences)]
    return [part for part in parts if part]


def _output(record: Record) -> str:
    title = f"{case_label(record)}   ({record.case.users} users, {record.load.driver or 'no load'})"
    output = record.load.output or str(record.problem or "") or "no output"
    return f"{title}\n{'=' * len(title)}\n{output.rstrip()}\n"


DEFINITIONS = {
    CASE: "the case, as offload measure has it, and other settings of its server",
    USERS: "each waits for a response before its next request",
    RATE: "completed requests per second, with the 95 % interval over rounds of fresh servers",
    RESPONSE: "the mean time of a request, including its wait for other requests",
    MEMORY: "the peak memory of all processes of the server (PSS: shared pages count once)",
    GIL_HELD: "the share of the run time of a single task in which it holds the GIL",
}
REQUESTED = (
    "Requested: the rate at which requests were sent, whether or not others were answered; the "
    "users of such a row measured the capacity before."
)


def summary_table(rows: Sequence[Row]) -> str:
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
    return render_table([CASE, *(column[0] for column in columns)], lines)


def summary_definitions(rows: Sequence[Row]) -> str:
    """Define each column of the table in a line."""
    shown = [CASE, *(column[0] for column in _columns(rows))]
    lines = [f"{name}: {DEFINITIONS[name]}." for name in shown]
    if any(row.first.case.asked_rate is not None for row in rows):
        lines.append(REQUESTED)
    return paragraphs(lines)


def _columns(rows: Sequence[Row]) -> list[list[str]]:
    """Return the columns after the first one, each with its head; omit columns without values."""
    columns = {
        USERS: [str(row.first.case.users) for row in rows],
        RATE: [rate_text(row) if row.problem is None else "not available" for row in rows],
        RESPONSE: [time_text(row.response_mean_s) for row in rows],
        MEMORY: [memory_text(row.memory_pss_mib) for row in rows],
        GIL_HELD: [share_text(row.gil_hold) for row in rows],
    }
    always = (USERS, RATE)
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


GIL_ON = "GIL on"
MOST = 50  # characters of a case
NUMBER = re.compile(r"\d+(\.\d+)*")

PythonLine = tuple[str, str, int, str]  # server, task, users, and its other settings and request


def python_table(rows: Sequence[Row]) -> str:
    """Render the rates of rows that were measured in several Pythons; empty for one Python."""
    names = {
        _requested_python(r.first): python_name(r.first) for r in rows if r.first.server.interpreter
    }
    cells: dict[PythonLine, dict[str, str]] = {}
    for row in rows:
        column = _column(row.first, names)
        cells.setdefault(_free_line(cells, row.first, column), {})[column] = _python_cell(row)
    columns = sorted({column for line in cells.values() for column in line}, key=_version_key)
    if len(columns) < 2:
        return ""
    parts = [_part(cells, own) for own in _fitting(cells, columns)]
    return "\n\n".join(part for part in (*parts, listing([*_notes(rows)])) if part)


def _column(record: Record, names: Mapping[str, str]) -> str:
    """Return the Python of a record; without a start, the one that its name had in another row."""
    if record.server.interpreter:
        return python_name(record)  # 3.11 may be 3.11.9 on another machine
    requested = _requested_python(record)
    return names.get(requested, requested)


def _part(cells: Mapping[PythonLine, Mapping[str, str]], columns: Sequence[str]) -> str:
    """Render the table of the Pythons in `columns`."""
    details = _details(cells)
    lines = [
        TableLine(
            (
                shortened(f"{line[0]}/{line[1]}", MOST, f"{line[0]}/"),
                str(line[2]),
                *(own.get(column, "-") for column in columns),
            ),
            details[line],
        )
        for line, own in cells.items()
    ]
    return render_table((CASE, USERS, *map(_head, columns)), lines)


def _line_of(record: Record) -> PythonLine:
    """Return what the same case in other Pythons has, too."""
    case = record.case
    settings = settings_of(record).split(",")
    parts = [part for part in settings if not part.startswith("python=")]
    parts += ["keep_alive=yes"] if case.keep_alive else []
    parts += [request_of(record)]
    return case.server, case.task, case.users, " ".join(part for part in parts if part)


def _free_line(
    cells: Mapping[PythonLine, Mapping[str, str]], record: Record, column: str
) -> PythonLine:
    """Return the line of a case, or an additional one if its cell in the column is taken.

    Two rows have the same cell if this program's Python was also requested by its version, or if
    the case was measured on two machines.
    """
    server, task, users, more = line = _line_of(record)
    name, number = f"{more} python={_requested_python(record)}".strip(), 1
    while column in cells.get(line, {}):
        line = server, task, users, name if number == 1 else f"{name} ({number})"
        number += 1
    return line


def _details(lines: Collection[PythonLine]) -> dict[PythonLine, str]:
    """Return the settings and the request of lines that differ only in them from another line."""
    count = Counter(line[:3] for line in lines)
    return {line: line[3] if count[line[:3]] > 1 else "" for line in lines}


def _fitting(
    cells: Mapping[PythonLine, Mapping[str, str]], columns: Sequence[str]
) -> Iterator[list[str]]:
    """Divide the Pythons into groups whose tables are not too wide."""
    own: list[str] = []
    for column in columns:
        texts = [[_head(name), *(line.get(name, "-") for line in cells.values())] for name in own]
        texts.append([_head(column), *(line.get(column, "-") for line in cells.values())])
        first = max(len(f"{server}/{task}") for server, task, *_ in cells)
        if own and first_column([[USERS], *texts]) < min(first, MOST):
            yield own
            own = []
        own = [*own, column]
    yield own


def _head(column: str) -> str:
    return f"Python {column}"


def _version_key(name: str) -> tuple[list[int], str]:
    version = NUMBER.match(name)
    return ([int(part) for part in version[0].split(".")] if version else [], name)


def _requested_python(record: Record) -> str:
    """Return the requested interpreter, or the version of this program's interpreter."""
    return record.case.python or str(record.environment.get("python"))


def _python_cell(row: Row) -> str:
    if row.problem is not None:
        return "cannot load" if row.problem.kind == CANNOT_LOAD else "not available"
    mark = f"{GIL_ON}, " if gil_enabled_by(row.first) else ""
    return f"{mark}{rate_text(row)}"


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    """Yield reasons for cells without a rate, and in which Pythons the GIL was off or enabled."""
    free = {
        python_name(row.first)
        for row in rows
        if row.first.server.interpreter.get("gil_enabled") is False and row.problem is None
    }
    for name in sorted(free):
        yield f"Python {name}: the GIL was off after the load, except where noted."
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        first, importer = row.first, gil_enabled_by(row.first)
        note = (row.problem.text if row.problem else "") or (
            importer and f"{importer} turned the GIL on"
        )
        if note:
            found.setdefault((_requested_python(first), note), []).append(
                f"{first.case.server}/{first.case.task}"
            )
    for (python, note), cases in found.items():
        yield f"{', '.join(cases)} in {python}: {note}"


def run_values(records: Sequence[Record]) -> dict[str, object]:
    """Return the rows of a run, its GIL effects, the machine and the notes on all rows."""
    found = rows(records)
    groups = comparable_groups(found)
    own = [_effect(effect) for group in groups for effect in comparisons.effects(group)]
    compared = comparisons.RunComparison.of(records)
    if compared is not None and not own:
        own = [_compared(compared)]
    noted = [note for group in groups for note in (*notes.collect_notes(group), *_variables(group))]
    return {
        "rows": [row_values(row) for row in found],
        "effects": own,
        "machine": _machine(records),
        "flags": list(dict.fromkeys(noted)),
    }


def _effect(effect: Effect) -> dict[str, object]:
    """Return a task's effect: the ratio of processes (`other`) over threads (`one`)."""
    first = effect.threads.first
    windows = [*effect.threads.windows, *effect.processes.windows]
    load = {"workers": first.server.workers, "users": first.case.users}
    return {
        "task": first.case.task,
        "one": first.case.server,
        "other": effect.processes.first.case.server,
        **load,
        **_verdict(effect.comparison, windows),
    }


def _compared(run: comparisons.RunComparison) -> dict[str, object]:
    """Return the effect of any two cases that were compared."""
    one, other = run.names
    tasks = dict.fromkeys(record.case.task for record in run.windows)
    workers = {record.server.workers for record in run.windows}
    users = {record.case.users for record in run.windows}
    common: dict[str, object] = {}
    if len(workers) == 1:
        common["workers"] = workers.pop()
    if len(users) == 1:
        common["users"] = users.pop()
    verdict = _verdict(run.comparison, run.windows)
    return {"task": ", ".join(tasks), "one": one, "other": other, **common, **verdict}


def _verdict(compared: Comparison, windows: Sequence[Record]) -> dict[str, object]:
    verdict = compared.verdict
    disturbed = [str(compared.disturbed)] if compared.disturbed else []
    return {
        "ratio": verdict.ratio,
        "ratio_low": verdict.low,
        "ratio_high": verdict.high,
        "verdict": verdict.outcome,
        "at_least": compared.at_least,
        "rounds": verdict.pairs,
        "flags": [*disturbed, *notes.count_flags(windows, "windows")],
    }


def _machine(records: Sequence[Record]) -> dict[str, object]:
    """Return the facts of the machine of the newest record, and the change of its speed."""
    facts = dict(records[-1].environment) if records else {}
    return {**facts, "speed_moved": speed_change(records)}


def _variables(group: Sequence[Row]) -> list[str]:
    return [f"differ in more than one variable: {text}" for text in notes.confounded(group)]


def row_values(row: Row) -> dict[str, object]:
    """Return the fields of one row. A rate that was measured only once has no interval (null)."""
    found, first, ceiling = row.estimate, row.first, row.ceiling
    return {
        "server": first.case.server,
        "task": first.case.task,
        "command": first.case.command,
        "request": first.case.request,
        "users": first.case.users,
        "requested_rate": first.case.asked_rate,
        "workers": first.server.workers,
        "processes": first.server.processes,
        "requests_by_process": _requests_by_process(row),
        "driver": first.load.driver,
        "model": row.model,
        "rounds": len(average_by_round(select_for_rate(row.windows), rate_of)),
        "availability": row.availability,
        "rate": row.rate,
        "rate_low": found.low if found else None,
        "rate_high": found.high if found else None,
        "resolved": found.resolved if found else None,
        "published_tool": row.long.load.driver if row.long else None,
        "published_rate": row.long.result.rate if row.long else None,
        "response_mean_s": row.response_mean_s,
        "response_p50_s": row.quantile(0.5),
        "response_p99_s": row.quantile(0.99),
        "response_at_least_s": row.at_least_s,
        "memory_pss_mib": row.memory_pss_mib,
        "completed": row.completed,
        "failed": sum(row.failed.values()) if row.completed is not None else None,
        "listen_overflows": row.listen_overflows,
        "loop_lag_p99_ms": row.loop_lag_p99_ms,
        "gil_hold": row.gil_hold,
        "ceiling": ceiling.rate if ceiling else None,
        "ceiling_kind": ceiling.kind if ceiling else None,
        "reached": row.reached,
        "application": diagnosis.as_dict(row.records) if row.has_signs else None,
        "flags": notes.row_warnings(row) if row.problem is None else [],
        "problem": None if row.problem is None else str(row.problem),
    }


def _requests_by_process(row: Row) -> list[int] | None:
    """Return the requests of each process, largest first, added over the loads of a row."""
    known = [r.resources.requests for r in row.records if r.resources.requests is not None]
    sizes = {len(each) for each in known}
    return [sum(each) for each in zip(*known, strict=True)] if len(sizes) == 1 else None


def rows_as_json(records: Sequence[Record]) -> str:
    """Render the rows as one JSON list."""
    return json.dumps([row_values(row) for row in rows(records)], indent=2) + "\n"
