"""A load test: one load against a server that is already running."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime

from offload import upstream
from offload.bench.records import journal
from offload.bench.records.record import Record
from offload.bench.trial import builder
from offload.bench.trial.load_phase import measure_load
from offload.bench.trial.warmup import prime
from offload.errors import StartError
from offload.loads import Load
from offload.registry import catalog
from offload.suites import Case


def of_server(facts: dict[str, object], load: Load, driver: str) -> Record:
    """Load the server that said `facts` when it was ready."""
    task = str(facts["task"])
    entry = catalog.find_server(str(facts["server"]))
    given = {k: facts[k] for k, default in entry.settings.items() if facts.get(k) != default}
    python, path = (_text(facts.get(key)) for key in ("executable", "path"))
    case = Case(
        entry.name,
        task,
        load.users,
        load.seconds or 0.0,
        load.keep_alive,
        given,
        python=None if python == sys.executable else python,
        path=path,
    )
    known = upstream.running() if "upstream" in catalog.find_task(task).needs else None
    record = builder.with_facts(builder.new(case, journal.LASTING, known), facts)
    record = replace(with_load(record, load), alone_s=_alone_s(load.url))
    return measure_load(record, load, driver, facts, known)


def _text(fact: object) -> str | None:
    return None if fact is None else str(fact)


def _alone_s(url: str) -> float | None:
    """Ask alone, which also waits until what an earlier load left is worked off.

    25 users of 0.28 s on 4 workers leave 1.75 s of work, which would cost the next load 5 %.
    """
    try:
        return round(prime(url).alone_s, 6)
    except StartError:  # the load will count what it answers
        return None


def of_url(load: Load, driver: str) -> Record:
    """Load any URL of this machine; nothing is known of what answers there."""
    record = Record(
        run=journal.LASTING,
        server="url",
        task=load.url,
        users=load.users,
        command=f"fab run_load_test:url={load.url}",
        utc=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return measure_load(with_load(record, load), load, driver, None, None)


def with_load(record: Record, load: Load) -> Record:
    """Add what was asked of the load tool."""
    return replace(
        record,
        url=load.url,
        seconds=load.seconds,
        requests=load.requests,
        keep_alive=load.keep_alive,
        asked_rate=load.rate,
        think_s=load.think,
    )
