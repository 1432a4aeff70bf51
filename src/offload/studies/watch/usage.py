"""The use of CPU, memory and threads by each process of a tree, and its limits (Linux)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from offload import resource_limits
from offload.engine import host, processes
from offload.engine.memory_limits import MemoryLimits
from offload.engine.processes import Counts, ThreadTotals, descendants, pss_mib
from offload.engine.record import Resources, Throttling
from offload.errors import escaped

SHARE = 0.002  # maximum share of the time for a slow reading: of memory, or the list of processes


@dataclass(frozen=True)
class ProcessUse:
    """The resources used by one process in a period; None is unknown.

    `cpu` is in cores. Context switches are per second, and those of all threads.
    """

    pid: int
    name: str
    cpu: float | None
    pss_mib: float | None
    threads: int | None
    switches_voluntary: float | None
    switches_involuntary: float | None


@dataclass
class _Counters:
    """The counters of a process so far: CPU time in s, and context switches of all threads."""

    at: float
    cpu_s: float | None
    reaped_s: float
    switches: Counts | None
    threads: int


class Pace:
    """Limit slow readings to SHARE of the time: the next one is due its duration / SHARE later."""

    def __init__(self) -> None:
        self._next = self._began = 0.0

    def is_due(self) -> bool:
        """Whether the next reading is due; if so, it starts now."""
        self._began = time.monotonic()
        return self._began >= self._next

    def finish(self) -> None:
        """Record the end of the reading."""
        now = time.monotonic()
        self._next = self._began + (now - self._began) / SHARE


class TreeUse:
    """Read the resources that a process and its descendants use between two calls of `read`."""

    def __init__(self, root: psutil.Process) -> None:
        self.root = root
        self.members = [root]
        self._before: dict[int, _Counters] = {}
        self._switches: dict[int, ThreadTotals] = {}
        self._pss: dict[int, float | None] = {}
        self._listing, self._memory = Pace(), Pace()

    def refresh(self) -> None:
        """Update the members of the tree if that is due. It takes 5 ms, or more if they are many.

        This process is never a member, because it always holds its own GIL when it samples.
        """
        if self._listing.is_due():
            children = descendants(self.root)
            self.members = [self.root, *(p for p in children if p.pid != os.getpid())]
            self._listing.finish()

    def read(self) -> tuple[list[ProcessUse], float | None]:
        """Return the use by each running member since the last call, and the CPU use of the tree.

        The CPU use of the tree, in cores, includes processes that have ended and were reaped since
        then. It is None in the first period, and if it is unknown.
        """
        now = {process.pid: self._counters(process) for process in self.members}
        self._switches = {pid: self._switches[pid] for pid in now}
        alive = [process for process in self.members if is_alive(process)]
        self._read_memory(alive)
        used = [
            _use(process, now[process.pid], self._before.get(process.pid), self._pss)
            for process in alive
        ]
        total = _tree_cpu(now, self._before)
        self._before = now
        return used, total

    def _counters(self, process: psutil.Process) -> _Counters:
        try:
            times = process.cpu_times()
            cpu_s: float | None = times.user + times.system
            reaped_s = times.children_user + times.children_system
        except psutil.NoSuchProcess:  # it was reaped: its use is counted in its parent
            cpu_s, reaped_s = 0.0, 0.0
        except psutil.Error:
            cpu_s, reaped_s = None, 0.0
        totals = self._switches.setdefault(process.pid, ThreadTotals(processes.read_switches))
        switches = totals.update([process.pid])
        return _Counters(time.monotonic(), cpu_s, reaped_s, switches, totals.threads)

    def _read_memory(self, processes: Iterable[psutil.Process]) -> None:
        """Read the PSS of new processes, and of all processes if that is due."""
        is_due = self._memory.is_due()
        known = {} if is_due else self._pss
        self._pss = {  # without processes that have ended: a pid can be reused
            process.pid: known[process.pid] if process.pid in known else pss_mib(process)
            for process in processes
        }
        if is_due:
            self._memory.finish()


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs; False for a zombie."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _use(
    process: psutil.Process,
    now: _Counters,
    before: _Counters | None,
    pss: dict[int, float | None],
) -> ProcessUse:
    elapsed = now.at - before.at if before else 0.0
    cpu = voluntary = involuntary = None
    if before and elapsed > 0:
        if now.cpu_s is not None and before.cpu_s is not None:
            cpu = max(0.0, now.cpu_s - before.cpu_s) / elapsed
        if now.switches and before.switches:
            voluntary, involuntary = (
                (after - first) / elapsed
                for after, first in zip(now.switches, before.switches, strict=True)
            )
    return ProcessUse(
        pid=process.pid,
        name=_name(process),
        cpu=cpu,
        pss_mib=pss.get(process.pid),
        threads=now.threads or None,
        switches_voluntary=voluntary,
        switches_involuntary=involuntary,
    )


def _tree_cpu(now: dict[int, _Counters], before: dict[int, _Counters]) -> float | None:
    """Return the CPU use of a tree in cores between two readings, with that of reaped children.

    It is None if there was no reading before, if the CPU time of a process is unknown, or if the
    sum has decreased because a process has left the tree.
    """
    if not now or not before:
        return None
    totals, times = [], []
    for counters in (before, now):
        if any(each.cpu_s is None for each in counters.values()):
            return None
        totals.append(sum((each.cpu_s or 0.0) + each.reaped_s for each in counters.values()))
        times.append(sum(each.at for each in counters.values()) / len(counters))
    elapsed, used = times[1] - times[0], totals[1] - totals[0]
    return used / elapsed if elapsed > 0 and used >= 0 else None


def program_name(process: psutil.Process) -> str:
    """Return the name of a process's program, escaped: a process can choose any bytes.

    Raise psutil.Error.
    """
    return escaped(str(process.name()))


def _name(process: psutil.Process) -> str:
    try:
        return program_name(process)
    except psutil.Error:
        return "?"


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
