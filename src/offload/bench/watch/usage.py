"""The use of CPU, memory and threads by each process of a tree (Linux)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from offload.bench.telemetry.process_tree import pss_mib

SHARE = 0.005  # of the time that a slow reading may take: memory, or the list of processes


@dataclass(frozen=True)
class ProcessUse:
    """The use by one process in a period; None is unknown.

    `cpu` is in cores, context switches are per second and of all threads.
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
    """Counters of a process so far: CPU seconds, and context switches by thread."""

    at: float
    cpu_s: float | None
    reaped_s: float
    switches: dict[int, tuple[int, int]]


class Pace:
    """Limit a slow reading to a SHARE of the time: it is due 200 times its duration later."""

    def __init__(self) -> None:
        self._next = self._began = 0.0

    def is_due(self) -> bool:
        """Whether the reading may be repeated now; if so, it begins."""
        self._began = time.monotonic()
        return self._began >= self._next

    def finish(self) -> None:
        """Note that the reading has ended."""
        now = time.monotonic()
        self._next = self._began + (now - self._began) / SHARE


class TreeUse:
    """Read the use by a process and its descendants between two calls of `read`."""

    def __init__(self, root: psutil.Process) -> None:
        self.root = root
        self.members = [root]
        self._before: dict[int, _Counters] = {}
        self._pss: dict[int, float | None] = {}
        self._listing, self._memory = Pace(), Pace()

    def refresh(self) -> None:
        """Update the members of the tree; it takes 5 ms, and more with many processes.

        This process is none: it holds its own GIL whenever it samples it.
        """
        if self._listing.is_due():
            try:
                children = self.root.children(recursive=True)
                self.members = [self.root, *(p for p in children if p.pid != os.getpid())]
            except psutil.NoSuchProcess:
                self.members = [self.root]
            self._listing.finish()

    def read(self) -> tuple[list[ProcessUse], float | None]:
        """Return the use by each running member since the last call, and the CPU of the tree.

        The CPU of the tree, in cores, includes processes that have ended since, if they were
        reaped. It is None in the first period and while it is unknown.
        """
        now = {process.pid: _counters(process) for process in self.members}
        alive = [process for process in self.members if is_alive(process)]
        self._read_memory(alive)
        used = [
            _use(process, now[process.pid], self._before.get(process.pid), self._pss)
            for process in alive
        ]
        total = _increase(now, self._before)
        self._before = now
        return used, total

    def _read_memory(self, processes: Iterable[psutil.Process]) -> None:
        """Read the PSS of each process, if that is due, and of new ones."""
        is_due = self._memory.is_due()
        for process in processes:
            if is_due or process.pid not in self._pss:
                self._pss[process.pid] = pss_mib(process)
        if is_due:
            self._memory.finish()


def is_alive(process: psutil.Process) -> bool:
    """Whether a process runs: one that has ended and waits for its parent does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _counters(process: psutil.Process) -> _Counters:
    try:
        times = process.cpu_times()
        cpu_s: float | None = times.user + times.system
        reaped_s = times.children_user + times.children_system
    except psutil.NoSuchProcess:  # reaped: its use counts in its parent
        cpu_s, reaped_s = 0.0, 0.0
    except psutil.Error:
        cpu_s, reaped_s = None, 0.0
    return _Counters(time.monotonic(), cpu_s, reaped_s, _switches(process.pid))


def _switches(pid: int) -> dict[int, tuple[int, int]]:
    """Return the voluntary and involuntary context switches of each thread so far.

    /proc/PID/status has those of the main thread alone.
    """
    found = {}
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - three times as fast
    except OSError:
        return {}
    for thread in threads:
        try:
            text = Path(f"/proc/{pid}/task/{thread}/status").read_bytes()
        except OSError:  # it ended
            continue
        words = text[text.rfind(b"voluntary_ctxt_switches", 0, text.rfind(b"nonvol")) :].split()
        if len(words) >= 4:
            found[int(thread)] = int(words[1]), int(words[3])
    return found


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
        if now.switches:
            voluntary, involuntary = (
                _grown(now.switches, before.switches, kind) / elapsed for kind in (0, 1)
            )
    return ProcessUse(
        pid=process.pid,
        name=_name(process),
        cpu=cpu,
        pss_mib=pss.get(process.pid),
        threads=len(now.switches) or None,
        switches_voluntary=voluntary,
        switches_involuntary=involuntary,
    )


def _grown(now: dict[int, tuple[int, int]], before: dict[int, tuple[int, int]], kind: int) -> int:
    """Return by how much the counts of all threads grew; threads that ended are not known."""
    return sum(
        max(0, counts[kind] - before.get(thread, (0, 0))[kind]) for thread, counts in now.items()
    )


def _increase(now: dict[int, _Counters], before: dict[int, _Counters]) -> float | None:
    """Return the CPU of a tree in cores, with that of children that ended and were reaped."""
    if not now or not before:
        return None
    totals, times = [], []
    for counters in (before, now):
        if any(each.cpu_s is None for each in counters.values()):
            return None
        totals.append(sum((each.cpu_s or 0.0) + each.reaped_s for each in counters.values()))
        times.append(sum(each.at for each in counters.values()) / len(counters))
    elapsed, used = times[1] - times[0], totals[1] - totals[0]
    return used / elapsed if elapsed > 0 and used >= 0 else None  # less: one has left the tree


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return "?"
