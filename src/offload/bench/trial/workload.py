"""What is asked of a load tool: a case's request, in a window of two cycles or in one long run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from offload.bench.records.record import Record
from offload.bench.stats.estimate import SLOW
from offload.bench.trial import builder
from offload.loads import Load
from offload.suites import Request

WARM = 0.5  # s of load, at least, that are not counted
WINDOW = 1.5  # s that are, at least: more by restart is worth more than longer
CYCLES = 2.0  # answers per user in a window, at least
TINY = 1e-9  # s
MANY, FEW = 20, 5  # answers in a window, at least; FEW below SLOW requests a second


def request(record: Record) -> Request:
    """Give what users of a record's case ask."""
    given: Mapping[str, Any] = record.request or {}
    return Request(**given)


def window(record: Record, facts: Mapping[str, object]) -> Load:
    """Ask for a warm-up and a window of two cycles or more, each time of all users once round.

    A server whose `facts` say that it serves in turn is left without work that nobody waits for.
    """
    is_slow = record.users / max(cycle_s(record), TINY) < SLOW
    return replace(
        _load(record),
        seconds=WINDOW,
        warm=WARM,
        cycles=CYCLES,
        completions=FEW if is_slow else MANY,
        waits=not builder.is_crowded(record),
        refills=not facts.get("serial"),
    )


def long(record: Record) -> Load:
    """Ask for a long run: so many seconds, or so many requests."""
    return replace(_load(record), seconds=record.seconds, requests=record.requests)


def warm_up(record: Record) -> Load:
    """Ask for a load before a long run, of as many users as keep its workers busy.

    The tool begins with none of them in flight, so that more of them would warm nothing.
    """
    workers = record.workers or record.settings.get("processes")
    users = min(record.users, workers if isinstance(workers, int) else 1)
    return replace(_load(record), users=users, processes=1, seconds=WARM, each=1)


def alone(record: Record) -> Load:
    """Ask as one user; for how often is still to be said."""
    return replace(_load(record), users=1, processes=1, seconds=None, keep_alive=False)


def cycle_s(record: Record) -> float:
    """Expect how long it takes to answer every user once: that depends on how many slots work."""
    return (record.alone_s or 0.0) * max(1.0, record.users / (record.workers or 1))


def _load(record: Record) -> Load:
    """Ask what the record's users ask, at its URL."""
    asked = request(record)
    return Load(
        record.url or "",
        record.users,
        keep_alive=record.keep_alive,
        method=asked.method,
        body=asked.body,
        processes=record.clients,
    )
