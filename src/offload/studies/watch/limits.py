"""The limits of the system that a watched process meets: the CPU quota of its control group."""

from __future__ import annotations

from offload import resource_limits
from offload.engine.record import Throttling


class LimitMeter:
    """Read how often the limits stopped a process `pid` since `start`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before: dict[str, resource_limits.QuotaCounts] = {}

    def start(self) -> None:
        """Read the counts so far."""
        self._before = resource_limits.quota_counts(self._pid)

    def throttling(self) -> Throttling:
        """Return the counts since then of the group whose quota stopped the process most often."""
        found = []
        for group, now in resource_limits.quota_counts(self._pid).items():
            if (before := self._before.get(group)) is not None:
                throttled = now.throttled - before.throttled
                stopped_s = round(now.stopped_s - before.stopped_s, 4)
                periods = now.periods - before.periods
                found.append(Throttling(now.quota, periods, throttled, stopped_s))
        return max(found, key=lambda each: each.throttled or 0, default=Throttling())
