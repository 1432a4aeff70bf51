"""Rows as JSON: rates in requests/s, times in s, memory in MiB; unknown values are null."""

from __future__ import annotations

import json
from collections.abc import Sequence

from offload.bench.analysis.comparison import rate_of
from offload.bench.records.record import Record
from offload.bench.records.run_records import by_round, of_rate
from offload.reports import application, warnings
from offload.reports.rows import Row, rows


def as_dict(row: Row) -> dict[str, object]:
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
        "flags": warnings.row_warnings(row) if row.problem is None else [],
        "problem": None if row.problem is None else str(row.problem),
    }


def _requests_by_process(row: Row) -> list[int] | None:
    """Return the requests of each process, largest first, added over the loads of a row."""
    known = [r.resources.requests for r in row.records if r.resources.requests is not None]
    sizes = {len(each) for each in known}
    return [sum(each) for each in zip(*known, strict=True)] if len(sizes) == 1 else None


def as_json(records: Sequence[Record]) -> str:
    """Render the rows as one JSON list."""
    return json.dumps([as_dict(row) for row in rows(records)], indent=2) + "\n"
