"""Confounded rows: rows that differ in more than one variable.

No single variable explains the difference of their rates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offload.documents.rows import Row
from offload.engine.record import Record
from offload.errors import UserError
from offload.registry import catalog

REFERENCE = "threads"  # the server with which the other servers of a task are compared
SERVER = "the HTTP server"
TORNADO = "Tornado"


def sentences(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each pair of servers that differ in more than one variable."""
    works: dict[tuple[object, ...], list[Record]] = {}
    for row in rows:
        if row.problem is None:
            works.setdefault(_work(row.first), []).append(row.first)
    found: dict[str, None] = {}
    for own in works.values():
        server = REFERENCE if any(r.case.server == REFERENCE for r in own) else own[0].case.server
        references = [record for record in own if record.case.server == server]
        for record in (record for record in own if record.case.server != server):
            reference = min(references, key=lambda other: len(_differences(record, other)))
            if words := _differences(record, reference):
                found.setdefault(f"{record.case.server} against {server}: {', '.join(words)}")
    return [*found]


def _work(record: Record) -> tuple[object, ...]:
    return (record.case.task, str(record.case.request))


def _differences(record: Record, reference: Record) -> list[str]:
    """Return the variables that differ; empty if there is only one difference."""
    own, other = _variables(record), _variables(reference)
    words = [
        f"{name} ({own[name]} against {other[name]})"
        for name in own
        if None not in (own[name], other[name]) and own[name] != other[name]
    ]
    has_same_http = own[SERVER] is not None and own[SERVER] == other[SERVER]
    if record.case.server != reference.case.server and has_same_http:
        words.insert(0, "the strategy")
    return words if len(words) > 1 else []


def _variables(record: Record) -> Mapping[str, object]:
    server, settings = _server(record.case.server), record.server.settings
    return {
        SERVER: server[0],
        "the event loop": server[1],
        "the listen queue": settings.get("backlog"),
        "workers": record.server.all_workers or record.server.processes,
        "users": record.case.users,
        "kept connections": record.case.keep_alive,
        "Python": record.server.interpreter.get("python"),
    }


def _server(name: str) -> tuple[str | None, str | None]:
    """Return the HTTP server and the event loop of a server; None if unknown."""
    try:
        entry = catalog.find_server(name)
    except UserError:  # it was measured elsewhere
        return None, None
    uvloop = "uvloop" if "uvloop" in entry.needs else None
    return entry.http_server, uvloop or ("asyncio" if entry.http_server == TORNADO else None)
