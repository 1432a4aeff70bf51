"""Causes in what the machine allows a server: its quota of the CPU."""

from __future__ import annotations

from collections.abc import Sequence

from offload.causes.figures import Figures
from offload.causes.rules import Cause, Rule
from offload.engine.figures import THROTTLED
from offload.engine.record import Record, Throttling

CPU_QUOTA = "cpu_quota"


def find_cpu_quota(of: Figures) -> Cause | None:
    """A quota of the CPU stops the server in many of its periods.

    A stopped thread looks like one that waits, or that blocks the loop or holds the GIL for long.
    """
    found = total_throttling(of.records)
    if found.share is None or found.share < THROTTLED:
        return None
    return Cause(CPU_QUOTA, found.share, THROTTLED, facts=found)


def total_throttling(records: Sequence[Record]) -> Throttling:
    """Return the sums over records; the quota is the smallest one."""
    known = [r.resources.throttling for r in records if r.resources.throttling.periods]
    if not known:
        return Throttling()
    return Throttling(
        min(each.quota or 0.0 for each in known),
        sum(each.periods or 0 for each in known),
        sum(each.throttled or 0 for each in known),
        round(sum(each.stopped_s or 0.0 for each in known), 4),
    )


def _describe_cpu_quota(cause: Cause, _: int) -> str:
    assert isinstance(cause.facts, Throttling)
    return cause.facts.text


RULES = (
    Rule(
        CPU_QUOTA,
        find_cpu_quota,
        _describe_cpu_quota,
        "raise the quota (--cpus=, CPUQuota=, limits.cpu) or use less CPU a request; more threads "
        "or processes gain nothing",
    ),
)
