"""Resources of a process tree: a process, its descendants, and adopted orphans of its group.

Orphans of the group are adopted by this process (`prctl.adopt_orphans`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import psutil

from offload.bench.telemetry import thread_totals
from offload.bench.telemetry.thread_totals import ThreadTotals
from offload.errors import MachineError, StartError

MIB = 1024 * 1024
MOST_THREADS = 256  # reading the context switches of a thread takes 25 us: more would disturb


class ProcessTree:
    """The processes of a tree at the last `refresh`.

    Raise StartError if the root has ended.
    """

    def __init__(self, pid: int) -> None:
        try:
            self.root = psutil.Process(pid)
        except psutil.NoSuchProcess:
            raise StartError(f"the server (pid {pid}) ended before the load started") from None
        self.members: list[psutil.Process] = [self.root]
        self._switches = ThreadTotals(thread_totals.switches, MOST_THREADS)
        self._queued = ThreadTotals(thread_totals.queued_ns)
        self.refresh()

    def refresh(self) -> None:
        """Update `members`; takes about 5 ms."""
        found = descendants(self.root)
        adopted = [child for child in psutil.Process().children() if self._is_in_group(child)]
        others = {child.pid: child for child in (*found, *adopted)}
        self.members = [self.root, *others.values()]

    def counters(self) -> dict[str, float | None]:
        """Return counters of the resources used so far.

        `cpu_s` is that of `cpu_s()`. The other counters are sums over all threads, including those
        that have ended (Linux): their context switches, and `queued_s`, the time in which they
        waited for a CPU.
        """
        pids = [process.pid for process in self.members]
        voluntary, involuntary = self._switches.update(pids) or (None, None)
        [queued_ns] = self._queued.update(pids) or (None,)
        return {
            "cpu_s": self.cpu_s(),
            "switches_voluntary": voluntary,
            "switches_involuntary": involuntary,
            "queued_s": None if queued_ns is None else queued_ns / 1e9,
        }

    def cpu_s(self) -> float | None:
        """Return the CPU time so far in s, including that of children that were reaped."""
        return self._total(lambda p: sum(p.cpu_times()[:4]))

    def sizes(self) -> dict[str, float | None]:
        """Return the number of processes at the last `refresh`, and of threads at `counters`."""
        return {
            "processes": float(len(self.members)),
            "threads": self._queued.threads or self._total(lambda p: p.num_threads()),
        }

    def open_files(self) -> float | None:
        """Return the current number of file descriptors."""
        return self._total(lambda p: p.num_fds())

    def memory(self) -> dict[str, float | None]:
        """Return the total memory in MiB; PSS counts a page shared by n processes as 1/n each.

        "whole" is the sum of the private pages, and the pages of the process that shares most.
        """
        kinds, sizes = ("pss", "uss", "rss"), []
        for process in self.members:
            try:
                sizes.append(process.memory_full_info())
            except psutil.NoSuchProcess:
                continue
            except psutil.Error:  # that of another user: without it, the sum would be too small
                return {f"memory_{kind}_mib": None for kind in (*kinds, "whole")}
        found = {
            f"memory_{kind}_mib": _mib(getattr(size, kind, None) for size in sizes)
            for kind in kinds
        }
        private = found["memory_uss_mib"]
        if private is None:
            return {**found, "memory_whole_mib": None}
        shared = max(size.rss - size.uss for size in sizes) / MIB
        return {**found, "memory_whole_mib": round(private + shared, 2)}

    def _total(self, read: Callable[[psutil.Process], float | None]) -> float | None:
        """Return the sum of one value over running members; None if it is unknown for one."""
        total = 0.0
        for process in self.members:
            try:
                value = read(process)
            except psutil.NoSuchProcess:  # it has ended: its use is counted in its parent
                continue
            except (psutil.Error, AttributeError):  # another user's process, or unsupported here
                return None
            if value is None:
                return None
            total += value
        return total

    def _is_in_group(self, child: psutil.Process) -> bool:
        try:
            return child.pid != self.root.pid and os.getpgid(child.pid) == self.root.pid
        except ProcessLookupError:
            return False


def descendants(process: psutil.Process) -> list[psutil.Process]:
    """Return the descendants of a process; none if it has ended.

    Raise MachineError if /proc lists processes that this user may not read (hidepid=1).
    """
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    except psutil.AccessDenied:
        what = f"the children of pid {process.pid} cannot be found: /proc is mounted with hidepid=1"
        fix = "run this as root, or sudo mount -o remount,hidepid=2 /proc"
        raise MachineError(what, fix) from None


def pss_mib(process: psutil.Process) -> float | None:
    """Return the PSS of one process in MiB; None if it has ended or belongs to another user."""
    pss = getattr(_memory(process), "pss", None)
    return None if pss is None else float(pss) / MIB


def uss_mib(process: psutil.Process) -> float | None:
    """Return the memory of one process in MiB without the pages that it shares with others.

    None if it has ended or belongs to another user.
    """
    uss = getattr(_memory(process), "uss", None)
    return None if uss is None else float(uss) / MIB


def _memory(process: psutil.Process) -> object | None:
    try:
        return process.memory_full_info()
    except psutil.Error:
        return None


def _mib(sizes: Iterable[int | None]) -> float | None:
    listed = list(sizes)
    known = [size for size in listed if size is not None]
    return round(sum(known) / MIB, 2) if known and len(known) == len(listed) else None
