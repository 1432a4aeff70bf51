"""The limits of a server's memory, read while a load runs: control groups, ulimit, swap (Linux).

The memory of cached files is not counted: the kernel drops it when a control group is full.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from offload import resource_limits
from offload.engine.record import MemoryLimit

MIB = 1 << 20
GROUP = "its control group"
ULIMITS = {
    "ulimit -v": (resource.RLIMIT_AS, "VmSize"),
    "ulimit -d": (resource.RLIMIT_DATA, "VmData"),
}
LIMITS = ("memory.max", "memory.high", "memory.limit_in_bytes")
USED = {"anon", "shmem", "total_rss"}  # in memory.stat: versions 2 and 1
KILLS = {"memory.events": "oom_kill", "memory.oom_control": "oom_kill"}


class MemoryLimits:
    """The limits of a server with a process `pid`; `update` reads what its processes use."""

    def __init__(self, pid: int, own: Path | None = None, root: Path | None = None) -> None:
        own = own or Path(f"/proc/{pid}/cgroup")
        groups = resource_limits.control_groups("memory", own, root or resource_limits.ROOT)
        self._limits = {group: limit for group in groups if (limit := _limit_of(group))}
        self._kills_before = self._kills()
        self._peaks: dict[tuple[str, float], float] = {}  # of the use, by the limit and its MiB
        self._swap_mib = 0.0

    def update(self, members: Iterable[psutil.Process]) -> None:
        """Read the current use."""
        for group, limit in self._limits.items():
            self._note(GROUP, limit, _sum_of(_pairs(group / "memory.stat"), USED))
        swap_mib = 0.0
        for process in members:
            status = _pairs(Path(f"/proc/{process.pid}/status"))
            swap_mib += status.get("VmSwap", 0) / 1024
            for name, (kind, key) in ULIMITS.items():
                with suppress(psutil.Error, OSError, AttributeError):  # it ended, or not Linux
                    soft, _ = process.rlimit(kind)
                    if soft != resource.RLIM_INFINITY:
                        self._note(name, soft, 1024 * status.get(key, 0))
        self._swap_mib = max(self._swap_mib, swap_mib)

    def found(self) -> MemoryLimit:
        """Return the limit that the use came nearest to, the peak of the swap, and the kills."""
        kills = None
        if self._kills_before is not None and (now := self._kills()) is not None:
            kills = now - self._kills_before
        nearest = max(self._peaks, key=lambda each: self._peaks[each] / each[1], default=None)
        swap_mib = round(self._swap_mib, 2)
        if nearest is None:
            return MemoryLimit(kills=kills, swap_mib=swap_mib)
        by, limit_mib = nearest
        return MemoryLimit(by, limit_mib, round(self._peaks[nearest], 2), kills, swap_mib)

    def _note(self, by: str, limit: int, used: int | None) -> None:
        if used is not None:
            key = (by, round(limit / MIB, 2))
            self._peaks[key] = max(used / MIB, self._peaks.get(key, 0.0))

    def _kills(self) -> int | None:
        """Return how many processes of the groups the kernel has killed, None if unknown.

        A group of version 2 counts those of its children, one of version 1 does not.
        """
        found = [_pairs(group / n).get(key) for group in self._limits for n, key in KILLS.items()]
        return max((count for count in found if count is not None), default=None)


def _limit_of(group: Path) -> int | None:
    """Return the limit of a group in bytes; None if it is none, or the machine has less memory."""
    found = []
    for name in LIMITS:
        with suppress(OSError, ValueError):
            found.append(int((group / name).read_text()))
    least = min(found, default=None)
    return least if least is not None and least < psutil.virtual_memory().total else None


def _pairs(path: Path) -> dict[str, int]:
    """Return the lines of a file that are a name and a number; empty if it cannot be read."""
    try:
        lines = [line.replace(":", " ").split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


def _sum_of(pairs: Mapping[str, int], names: set[str]) -> int | None:
    known = [pairs[name] for name in names & pairs.keys()]
    return sum(known) if known else None
