"""The ceiling of a case whose suite states its slots: processes x slots / time of one request."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import astuple

from offload.bench.records.record import Record
from offload.bench.stats import operational_laws
from offload.bench.stats.operational_laws import Ceiling
from offload.registry import catalog
from offload.suites import _module

SHORT = 0.01  # s: below it a request alone is mostly hops and wake-ups, which overlap under load


def ceilings(record: Record, alone_s: float | None) -> list[Ceiling]:
    """Return that ceiling from a record and the time of a request alone in s; [] if unknown."""
    request = tuple((record.case.request or {}).values())
    case = (record.case.server, record.case.task, *request)
    slots = _stated_slots(record.trial.suite or "").get(case)
    if slots is None or alone_s is None or alone_s <= SHORT:
        return []
    processes = record.server.settings.get("processes", record.server.workers)
    count = slots * (processes if isinstance(processes, int) else 1)
    return operational_laws.ceilings(workers=count, service_s=alone_s)


@functools.cache
def _stated_slots(suite: str) -> Mapping[tuple[object, ...], int]:
    """Return the slots that a suite's cases state, by server, task and request, quick ones too."""
    if suite not in catalog.suites():
        return {}
    return {
        (each.server, each.task, *(astuple(each.request) if each.request else ())): case.slots
        for case in _module.load(suite).CASES
        if case.slots is not None
        for each in (case, case.quick())
    }
