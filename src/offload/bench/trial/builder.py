"""The draft of a record: what is known of a load beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime

from offload.bench.records.record import UNAVAILABLE, Record
from offload.bench.target import server
from offload.bench.telemetry.host import environment
from offload.errors import Mendable
from offload.suites import Case
from offload.upstream import Upstream

GIL = ("gil_enabled", "gil_enabled_by")  # which an import may change
SETTINGS = ("workers", "processes", "backlog", "start_method")
INTERPRETER = (
    "python",
    "implementation",
    "gil_enabled",
    "gil_enabled_by",
    "free_threaded_build",
    "python_gil",
    "switch_interval_s",
    "jit",
    "worker_interpreters",
)


def new(case: Case, run: str, upstream: Upstream | None) -> Record:
    """Begin a record with all that is known before the measurement."""
    return Record(
        run=run,
        server=case.server,
        task=case.task,
        users=case.users,
        seconds=case.seconds if case.requests is None else None,
        requests=case.requests,
        clients=case.clients,
        request=None if case.request is None else asdict(case.request),
        keep_alive=case.keep_alive,
        settings=case.settings,
        command=case.command,
        utc=datetime.now(UTC).isoformat(timespec="seconds"),
        upstream=None if upstream is None else _facts(upstream),
        environment=environment(),
    )


def _facts(upstream: Upstream) -> dict[str, object]:
    return {"kind": upstream.kind, "latency_s": upstream.latency_s}


def is_crowded(record: Record) -> bool:
    """Say whether there are more users than its server's listen queue takes."""
    backlog = record.settings.get("backlog")
    return isinstance(backlog, int) and record.users > backlog


def not_available(record: Record, error: Mendable) -> Record:
    """Say in a record why it has no figures."""
    return replace(record, problem=f"{UNAVAILABLE}{error}")


def with_facts(record: Record, facts: Mapping[str, object]) -> Record:
    """Add what a server said when it was ready: the settings in force and its interpreter."""
    workers = facts.get("workers")
    return replace(
        record,
        workers=workers if isinstance(workers, int) else None,
        settings={key: facts[key] for key in SETTINGS if key in facts},
        interpreter={key: facts[key] for key in INTERPRETER if key in facts},
    )


def ended(record: Record, running: server.Server) -> Record:
    """Add what is known when a server is gone: its whole CPU time, and its GIL at the end."""
    left = ("left: processes were left after the stop and were killed",) if running.left else ()
    gil = {key: running.ending[key] for key in GIL if running.ending.get(key) is not None}
    return replace(
        record,
        server_life_cpu_s=round(running.cpu_s, 6),
        interpreter={**record.interpreter, **gil},
        flags=record.flags + left,
    )
