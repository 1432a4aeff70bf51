"""The processes of a server: the resources of their tree, of their threads, and their responses.

A tree is a process, its descendants, and adopted orphans of its group. This process adopts them
(`prctl.adopt_orphans`).
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil

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
        self._switches = ThreadTotals(read_switches, MOST_THREADS)
        self._queued = ThreadTotals(read_queued_ns)
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


Counts = tuple[int, ...]
Read = Callable[[str], Counts | None]


class ThreadTotals:
    """The totals over all threads of the counters that `read` returns for a thread.

    /proc/PID/status has only the context switches of the main thread, and the counters of a thread
    are removed when it ends. So the counters of each thread are read, and the last reading of a
    thread that has ended is kept. One that starts and ends between two readings is not counted.

    The argument of `read` is the folder of the thread in /proc. With more threads than `most` the
    totals are unknown.
    """

    def __init__(self, read: Read, most: float = math.inf) -> None:
        self._read, self._most = read, most
        self._last: dict[tuple[int, int], Counts] = {}  # last reading by (pid, thread)
        self._replaced: Counts = ()  # total of ended threads whose number another thread has now
        self.threads = 0  # at the last update

    def update(self, pids: Iterable[int]) -> Counts | None:
        """Return the totals of all threads so far; None if no thread could be read."""
        threads = [(pid, thread) for pid in pids for thread in _threads(pid)]
        self.threads = len(threads)
        if self.threads > self._most:
            return None
        for pid, thread in threads:
            counts = self._read(f"/proc/{pid}/task/{thread}")
            if counts is None:  # it has just ended
                continue
            before = self._last.get((pid, thread), counts)
            if counts < before:
                self._replaced = _sum(self._replaced, before)
            self._last[pid, thread] = counts
        total = self._replaced
        for counts in self._last.values():
            total = _sum(total, counts)
        return total or None


def read_switches(thread: str) -> Counts | None:
    """Return the voluntary and involuntary context switches of a thread; None if it has ended."""
    try:
        text = Path(f"{thread}/status").read_bytes()
    except OSError:
        return None
    words = text[text.rfind(b"voluntary_ctxt_switches", 0, text.rfind(b"nonvol")) :].split()
    return (int(words[1]), int(words[3])) if len(words) >= 4 else None


def read_queued_ns(thread: str) -> Counts | None:
    """Return the time that a thread waited for a CPU, in ns; None if it has ended."""
    try:
        return (int(Path(f"{thread}/schedstat").read_bytes().split()[1]),)
    except (OSError, IndexError):
        return None


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 - faster
    except OSError:  # it has ended
        return []


def _sum(one: Counts, other: Counts) -> Counts:
    return tuple(map(sum, zip(one, other, strict=True))) if one else other


class ResponseCounts:
    """Reads the counts of a server; `layout` is its fact `process_counts`.

    A row of the memory has numbers of 8 bytes: the pid of a process (0: the row is not used), then
    its counts. Those at the indexes `responses` add up to the requests that it has answered.
    """

    def __init__(self, layout: Mapping[str, Any]) -> None:
        """Open the memory; raise OSError if the server has ended."""
        self._columns, self._responses = int(layout["columns"]), layout["responses"]
        with open(layout["path"], "rb") as file:  # noqa: PTH123 - the path is not that of a file
            self._counts = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)).cast("q")

    def responses(self) -> list[int]:
        """Return how many requests each process has answered since the start of the server.

        A process that replaces another one continues its count.
        """
        found = []
        for at in range(0, len(self._counts), self._columns):
            row = self._counts[at : at + self._columns]
            if not row[0]:
                break
            found.append(sum(row[index] for index in self._responses))
        return found


def open_response_counts(facts: Mapping[str, Any]) -> ResponseCounts | None:
    """Return a reader of the server that reported `facts`; None if its counts are unknown."""
    layout = facts.get("process_counts")
    try:
        return None if layout is None else ResponseCounts(layout)
    except (OSError, ValueError):
        return None
