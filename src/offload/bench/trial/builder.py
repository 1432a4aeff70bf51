"""Build the fields of a record that are not measured by the load."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from offload.engine import server
from offload.engine.host import environment
from offload.engine.record import CaseFacts, Record, ServerFacts, Trial
from offload.errors import StartError, UserError
from offload.flags import Flag, Problem
from offload.registry import catalog
from offload.suites import Case, _module
from offload.upstream import Upstream

PROTECTION = ("max_wait", "task_timeout", "max_connections")  # known with protect=yes
GIL = ("gil_enabled", "gil_enabled_by")  # facts that an import may change
CLUSTER = ("scheduler", "ssh", "dask_isolate")  # of dask
SETTINGS = (
    "workers",
    "processes",
    "reuse_port",
    "backlog",
    "start_method",
    "protect",
    "health",
    "bind",
    *CLUSTER,
    *PROTECTION,
)
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
Facts = Mapping[str, object]


def new_trial(run: str, **known: Any) -> Trial:
    """Return the facts of a trial of `run` that starts now."""
    return Trial(run, datetime.now(UTC).isoformat(timespec="seconds"), **known)


def case_facts(case: Case, upstream: Upstream | None) -> CaseFacts:
    """Return the facts of a case that are known before it is measured."""
    return CaseFacts(
        id=case.id,
        server=case.server,
        task=case.task,
        command=case.command,
        users=case.users,
        python=case.python,
        keep_alive=case.keep_alive,
        seconds=case.seconds if case.requests is None else None,
        requests=case.requests,
        request=None if case.request is None else case.request.masked,
        clients=case.clients,
        upstream=None if upstream is None else _upstream(upstream),
        path=case.path,
        origin=None if case.origin is None else case.origin.label,
    )


def _upstream(upstream: Upstream) -> dict[str, object]:
    return {"kind": upstream.kind, "latency_s": upstream.latency_s}


def server_facts(facts: Facts) -> ServerFacts:
    """Return the facts that a server reported in its ready line."""
    workers = facts.get("workers")
    return ServerFacts(
        workers=workers if isinstance(workers, int) else None,
        settings={key: facts[key] for key in SETTINGS if key in facts},
        interpreter={key: facts[key] for key in INTERPRETER if key in facts},
    )


def unavailable(trial: Trial, case: CaseFacts, settings: Facts, error: UserError) -> Record:
    """Build the record of a case that could not be measured."""
    return Record(
        trial,
        case,
        ServerFacts(settings=settings),
        problem=Problem(error.kind, error.what, error.remedy),
        environment=environment(),
    )


def with_gil(facts: ServerFacts, state: Facts) -> ServerFacts:
    """Add the state of the GIL after a load, because an import may have changed it."""
    return replace(facts, interpreter={**facts.interpreter, **state})


def with_ending(facts: ServerFacts, running: server.Server) -> tuple[ServerFacts, tuple[Flag, ...]]:
    """Add the facts of a server that has ended: its total CPU time, and the state of its GIL."""
    left = Flag("left", "processes were left after the stop and were killed")
    gil = {key: running.ending[key] for key in GIL if running.ending.get(key) is not None}
    if facts.interpreter.get("gil_enabled"):  # in a worker: it cannot be disabled again
        gil["gil_enabled"] = True
    complete = replace(with_gil(facts, gil), life_cpu_s=round(running.cpu_s, 6))
    return complete, (left,) if running.left else ()


WHOLE_CONTENT = 160  # characters; a longer content is replaced by its start and a hash


def comparable_content(suite: str | None, body: bytes) -> str | None:
    """Return the result of a suite's `extract(body)`; None if the suite does not define it.

    Raise StartError if `extract` cannot read the body, for example an error with status 200.
    """
    if suite is None or suite not in catalog.suites():
        return None
    extract = getattr(_module.load(suite), "extract", None)
    if extract is None:
        return None
    try:
        text = str(extract(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = body[:WHOLE_CONTENT].decode(errors="replace")
        raise StartError(f"the response cannot be read by suites/{suite}.py: {text}") from error
    if len(text) <= WHOLE_CONTENT:
        return text
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
    return f"{text[:WHOLE_CONTENT]}... {len(text)} characters, sha256 {digest}"
