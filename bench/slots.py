"""The ceiling of a case that tells its slots: processes x slots / time of one request alone."""

from __future__ import annotations

from bench.record import Record
from bench.stats import audit
from bench.stats.audit import Ceiling
from suites import Case

SHORT = 0.01  # s: below it a request alone is mostly hops and wake-ups, which overlap under load


def ceilings(case: Case, record: Record, alone_s: float | None) -> list[Ceiling]:
    """Give that ceiling by a record of the case and the time alone in s; nothing if unknown."""
    if case.slots is None or alone_s is None or alone_s <= SHORT:
        return []
    processes = record.settings.get("processes", record.workers)
    count = case.slots * (processes if isinstance(processes, int) else 1)
    return audit.ceilings(workers=count, service_s=alone_s)
