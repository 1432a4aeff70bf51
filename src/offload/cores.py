"""The CPUs that this process may use: its affinity, and the quota of its control groups."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from offload import cgroups


def available() -> int:
    """Return the number of CPUs that can be used concurrently, at least 1.

    A quota of 1.5 CPUs (`docker run --cpus=1.5`) counts as 2.
    """
    return max(1, math.ceil(capacity()))


def capacity() -> float:
    """Return how many CPUs can be used on average: those of the affinity, at most the quota."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota = cgroup_quota(cgroups.OWN, cgroups.ROOT)
    return float(affinity or 1) if quota is None else min(float(affinity or 1), quota)


def numbers() -> tuple[int, ...]:
    """Return the numbers of the CPUs that this process may use; none if they are unknown."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()


@contextlib.contextmanager
def limited_to(cpus: Sequence[int]) -> Iterator[None]:
    """Limit this thread, and the processes that it starts, to some CPUs; no CPUs: no limit."""
    if not cpus:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cgroup_quota(own: Path, root: Path) -> float | None:
    """Return the smallest quota, in CPUs, of this process's groups and their parents, or None.

    The quota is in the file cpu.max (control groups version 2) or cpu.cfs_quota_us (version 1).
    """
    found = map(_quota, cgroups.groups("cpu", own, root))
    return min((quota for quota in found if quota is not None), default=None)


def _quota(group: Path) -> float | None:
    """Return the quota of one group."""
    try:
        if (group / "cpu.max").exists():
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota = (group / "cpu.cfs_quota_us").read_text().strip()
            period = (group / "cpu.cfs_period_us").read_text().strip()
    except (OSError, ValueError):
        return None
    return None if quota in ("max", "-1") else int(quota) / int(period)
