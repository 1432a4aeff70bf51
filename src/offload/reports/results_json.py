"""The results of a run as JSON, for programs; results.schema.json describes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from offload.bench.analysis import machine_speed
from offload.bench.analysis.comparison import Comparison
from offload.bench.records.record import Record
from offload.reports import comparison, json_rows, notes, provenance, variables, warnings
from offload.reports.gil import effects
from offload.reports.gil.effects import Effect
from offload.reports.rows import Row, rows

SCHEMA = Path(__file__).with_name("results.schema.json")


def as_dict(records: Sequence[Record]) -> dict[str, object]:
    """Return the rows of a run, its GIL effects, the machine and the notes on all rows."""
    found = rows(records)
    groups = provenance.group_by_provenance(found, lambda row: provenance.provenance_of(row.first))
    own = [_effect(effect) for group in groups for effect in effects.effects(group)]
    compared = comparison.RunComparison.of(records)
    if compared is not None and not own:
        own = [_compared(compared)]
    noted = [note for group in groups for note in (*notes.of_table(group), *_variables(group))]
    return {
        "rows": [json_rows.as_dict(row) for row in found],
        "effects": own,
        "machine": _machine(records),
        "flags": list(dict.fromkeys(noted)),
    }


def as_json(records: Sequence[Record]) -> str:
    """Render the results of a run as one JSON object."""
    return json.dumps(as_dict(records), indent=2) + "\n"


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


def _compared(run: comparison.RunComparison) -> dict[str, object]:
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
        "flags": [*disturbed, *warnings.count_flags(windows, "windows")],
    }


def _machine(records: Sequence[Record]) -> dict[str, object]:
    """Return the facts of the machine of the newest record, and the change of its speed."""
    facts = dict(records[-1].environment) if records else {}
    return {**facts, "speed_moved": machine_speed.moved(records)}


def _variables(group: Sequence[Row]) -> list[str]:
    return [f"differ in more than one variable: {text}" for text in variables.sentences(group)]
