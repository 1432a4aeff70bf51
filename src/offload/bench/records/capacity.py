"""The ceiling of a case that tells its slots: processes x slots / time of one request alone."""

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
    """Give that ceiling by a record of the case and the time alone in s; nothing if unknown."""
    asked = tuple((record.case.request or {}).values())
    slots = _told(record.trial.suite or "").get((record.case.server, record.case.task, *asked))
    if slots is None or alone_s is None or alone_s <= SHORT:
        return []
    processes = record.server.settings.get("processes", record.server.workers)
    count = slots * (processes if isinstance(processes, int) else 1)
    return operational_laws.ceilings(workers=count, service_s=alone_s)


@functools.cache
def _told(suite: str) -> Mapping[tuple[object, ...], int]:
    """Give the slots that a suite's cases tell, by what is served and asked, as quick does too."""
    if suite not in catalog.suites():
        return {}
    return {
        (each.server, each.task, *(astuple(each.request) if each.request else ())): case.slots
        for case in _module.load(suite).CASES
        if case.slots is not None
        for each in (case, case.quick())
    }
