"""The limits of the system that a watched process meets: its quota of the CPU, its memory."""

from __future__ import annotations

import time
from collections.abc import Iterable

import psutil

from offload import resource_limits
from offload.engine import host
from offload.engine.memory_limits import MemoryLimits
from offload.engine.record import Resources, Throttling
from offload.studies.watch.usage import Pace


class LimitMeter:
    """Read how often the limits stopped a process `pid`, and its memory, since `start`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before: dict[str, resource_limits.QuotaCounts] = {}
        self._busy_s: float | None = None
        self._began = 0.0
        self._memory, self._pace = MemoryLimits(pid), Pace()

    def start(self) -> None:
        """Read the counts so far."""
        self._before = resource_limits.quota_counts(self._pid)
        self._busy_s, self._began = host.read_counters()["busy_s"], time.monotonic()

    def read(self, members: Iterable[psutil.Process]) -> None:
        """Read the memory of these processes if that is due."""
        if self._pace.is_due():
            self._memory.update(members)
            self._pace.finish()

    def resources(self) -> Resources:
        """Return what was read, for the rules for records."""
        return Resources(throttling=self._throttling(), memory_limit=self._memory.found())

    def busy_cores(self) -> float | None:
        """Return how many cores of the machine were in use, by all programs."""
        now, seconds = host.read_counters()["busy_s"], time.monotonic() - self._began
        return None if now is None or self._busy_s is None else (now - self._busy_s) / seconds

    def _throttling(self) -> Throttling:
        """Return the counts since then of the group whose quota stopped the process most often."""
        found = []
        for group, now in resource_limits.quota_counts(self._pid).items():
            if (before := self._before.get(group)) is not None:
                throttled = now.throttled - before.throttled
                stopped_s = round(now.stopped_s - before.stopped_s, 4)
                periods = now.periods - before.periods
                found.append(Throttling(now.quota, periods, throttled, stopped_s))
        return max(found, key=lambda each: each.throttled or 0, default=Throttling())
