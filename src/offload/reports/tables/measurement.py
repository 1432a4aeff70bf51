"""Describe when, where and with which tools rows were measured."""

from __future__ import annotations

from collections.abc import Sequence

from offload.bench.telemetry.host import sentence
from offload.documents.text import wrapped
from offload.engine.record import Record
from offload.reports import provenance
from offload.reports.rows import Row


def conditions(rows: Sequence[Row]) -> str:
    """Describe when, where and with which tools the rows were measured."""
    return f"{where(rows)}\n{how(rows)}".strip()


def where(rows: Sequence[Row]) -> str:
    """Describe when and where the rows were measured, and the size of their pools."""
    lines = [wrapped(when(rows))]
    if pools := _pools([record for row in rows for record in row.records]):
        lines.append(pools)
    return "\n".join(lines)


def when(rows: Sequence[Row]) -> str:
    """Return a sentence with the time of the first record and the machine."""
    day = min(record.trial.utc for row in rows for record in row.records)[:16].replace("T", " ")
    return f"Measured {day} UTC on {_machine(rows)}."


def how(rows: Sequence[Row]) -> str:
    """Describe the load tools and the upstreams of the rows."""
    records = [record for row in rows for record in row.records]
    tools = sorted(
        {f"{r.load.driver} {r.load.version or ''}".strip() for r in records if r.load.driver}
    )
    upstreams = sorted({str(r.case.upstream["kind"]) for r in records if r.case.upstream})
    kept = {record.case.keep_alive for record in records if record.load.driver}
    how = {frozenset({True}): "connections kept", frozenset({False}): "one connection per request"}
    lines = []
    if tools:
        lines.append(f"Load: {', '.join(tools)}; {how.get(frozenset(kept), 'of both kinds')}.")
    if upstreams:
        lines.append(f"Network tasks fetched from {', '.join(upstreams)} on the same machine.")
    return "\n".join(wrapped(line) for line in lines)


def _pools(records: Sequence[Record]) -> str:
    """Describe the sizes of the pools in relation to the number of cores."""
    workers = sorted({r.server.workers for r in records if r.server.workers})
    if not workers:
        return ""
    sizes = f"Pools of {', '.join(map(str, workers))} workers"
    cores = records[0].environment.get("cores")
    if not isinstance(cores, int):
        return f"{sizes}."
    on = f"{sizes} on {cores} cores"
    if max(workers) > cores:
        return f"{on}: the workers share the cores."
    return f"{on}: fewer workers than cores." if max(workers) < cores else f"{on}."


def _machine(rows: Sequence[Row]) -> str:
    facts = next((dict(r.environment) for row in rows for r in row.records if r.environment), None)
    if facts is None:
        return "an unknown machine"
    served = next((r for row in rows for r in row.records if r.server.interpreter), None)
    return sentence(
        facts if served is None else {**facts, "python": provenance.python_after_load(served)}
    )
