"""Ceilings: the highest rate that the slots, the users or the CPUs of a case allow.

The operational laws compute a ceiling from a count and a time. This module selects both from the
records of a case.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Mapping, Sequence

from offload.engine.figures import Ceiling, ceilings, median_of
from offload.engine.record import Record
from offload.registry import catalog
from offload.suites import load_suite

ABOVE = 1.02  # rate over ceiling, above which the ceiling is exceeded
SHORT = 0.01  # s: a shorter request consists mostly of hops and wake-ups, which overlap under load
SATURATED = 0.98  # requests in flight (Little's law) as a share of the slots: all slots are busy


def of_case(case: Record, records: Sequence[Record], in_flight: float) -> Ceiling | None:
    """Return the lowest known ceiling of a case, from the median times of its records.

    `case` is any of the `records`, from which constant fields are read. `in_flight` is the mean
    number of concurrent requests. If it is below the number of slots, the time per slot includes
    idle time and cannot be used as a service time.
    """
    workers, slots = case.server.all_workers, all_slots(case)
    alone_s = median_of(records, lambda r: r.baseline.alone_s)
    slot_s = median_of(records, lambda r: r.tasks.slot_s)
    if slot_s and in_flight >= SATURATED * (slots or workers or 1):
        # An event loop has one slot; with async tasks, which share it, the slots are unknown.
        known = _by_time(slot_s, workers=slots or workers)
    elif _is_cluster(case):
        known = []
    else:
        known = _by_time(alone_s, workers=workers)
    known += _by_time(alone_s, users=case.case.users)
    known += _by_stated_slots(case, _fastest_s(records))
    cores = case.environment.get("cores")
    cpu_ms = median_of(records, lambda r: r.resources.cpu_ms_per_request)
    if isinstance(cores, int) and cpu_ms is not None:
        known += ceilings(cores=cores, cpu_s=cpu_ms / 1000)
    return min(known, key=lambda ceiling: ceiling.rate, default=None)


def exceeded(record: Record, records: Sequence[Record]) -> Ceiling | None:
    """Return a ceiling that a record's rate exceeds, which indicates an error; else None.

    No request is faster than the fastest single request in the case's `records`. The time per slot
    may include idle time here: no rate can be above slots / time in any case.
    """
    fastest_s = _fastest_s(records)
    known = [
        *_by_time(fastest_s, users=record.case.users),
        *ceilings(workers=all_slots(record), service_s=record.tasks.slot_s),
        *_by_stated_slots(record, fastest_s),
    ]
    return next((c for c in known if (record.result.rate or 0.0) > ABOVE * c.rate), None)


def of_workers(case: Record, records: Sequence[Record]) -> float | None:
    """Return the rate that the workers allow: workers / high median time of a single request.

    It is unknown for a cluster.
    """
    if _is_cluster(case):
        return None
    known = [r.baseline.alone_s for r in records if r.baseline.alone_s is not None]
    alone_s = statistics.median_high(known) if known else None
    return next((c.rate for c in _by_time(alone_s, workers=case.server.all_workers)), None)


def _is_cluster(record: Record) -> bool:
    """Whether a scheduler passes tasks to workers by messages.

    A single request then takes much longer than it occupies a worker.
    """
    return "dask_isolate" in record.server.settings


def all_slots(record: Record) -> int | None:
    """Return the number of slots of a server, which reports those of one process."""
    slots, server = record.tasks.slots, record.server
    if slots is None or server.processes is None:
        return slots
    return server.all_workers or slots * server.processes


def _by_time(
    service_s: float | None, workers: float | None = None, users: float | None = None
) -> list[Ceiling]:
    """Return the ceilings of a service time; none if it is too short to be a service time."""
    if service_s is None or service_s < SHORT:
        return []
    return ceilings(workers=workers, users=users, service_s=service_s)


def _by_stated_slots(record: Record, alone_s: float | None) -> list[Ceiling]:
    """Return the ceiling of a case whose suite states its slots: processes x slots / time."""
    request = tuple((record.case.request or {}).values())
    case = (record.case.server, record.case.task, *request)
    slots = _stated_slots(record.trial.suite or "").get(case)
    if slots is None:
        return []
    processes = record.server.settings.get("processes", record.server.workers)
    return _by_time(alone_s, workers=slots * (processes if isinstance(processes, int) else 1))


def _fastest_s(records: Sequence[Record]) -> float | None:
    return min((r.baseline.alone_s for r in records if r.baseline.alone_s), default=None)


@functools.cache
def _stated_slots(suite: str) -> Mapping[tuple[object, ...], int]:
    """Return the slots that a suite's cases and quick cases state, by server, task and request."""
    if suite not in catalog.suites():
        return {}
    return {
        (each.server, each.task, *(each.request.key if each.request else ())): case.slots
        for case in load_suite(suite).CASES
        if case.slots is not None
        for each in (case, case.quick())
    }
