"""The results of a run as JSON, for programs; results.schema.json describes it.

Rates are in requests/s, times in s, memory in MiB; unknown values are null.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from offload.bench.analysis import disturbance
from offload.bench.analysis.comparison import Comparison, rate_of
from offload.documents.rows import Row, comparable_groups, rows
from offload.engine.record import Record, by_round, of_rate
from offload.reports import application, comparison, notes, variables
from offload.reports.gil import effects
from offload.reports.gil.effects import Effect

SCHEMA = Path(__file__).with_name("results.schema.json")


def as_dict(records: Sequence[Record]) -> dict[str, object]:
    """Return the rows of a run, its GIL effects, the machine and the notes on all rows."""
    found = rows(records)
    groups = comparable_groups(found)
    own = [_effect(effect) for group in groups for effect in effects.effects(group)]
    compared = comparison.RunComparison.of(records)
    if compared is not None and not own:
        own = [_compared(compared)]
    noted = [note for group in groups for note in (*notes.of_table(group), *_variables(group))]
    return {
        "rows": [row_as_dict(row) for row in found],
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
        "flags": [*disturbed, *notes.count_flags(windows, "windows")],
    }


def _machine(records: Sequence[Record]) -> dict[str, object]:
    """Return the facts of the machine of the newest record, and the change of its speed."""
    facts = dict(records[-1].environment) if records else {}
    return {**facts, "speed_moved": disturbance.speed_change(records)}


def _variables(group: Sequence[Row]) -> list[str]:
    return [f"differ in more than one variable: {text}" for text in variables.sentences(group)]


def row_as_dict(row: Row) -> dict[str, object]:
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
        "rounds": len(by_round(of_rate(row.windows), rate_of)),
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
        "application": application.as_dict(row.records),
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
    return json.dumps([row_as_dict(row) for row in rows(records)], indent=2) + "\n"
