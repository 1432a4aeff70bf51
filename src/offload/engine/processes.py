"""The resources of a server and its processes, sampled from outside while a load runs.

First the sampler, then what it reads: the tree of processes and its threads, the requests that each
process answered, and the memory after a garbage collection.
"""

from __future__ import annotations

import math
import mmap
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from offload import resource_limits
from offload.engine import host
from offload.engine.host import CounterSeries
from offload.engine.memory_limits import MemoryLimits
from offload.engine.record import (
    ClientPorts,
    HostUse,
    Memory,
    MemoryLimit,
    ProcessShare,
    Resources,
    Throttling,
)
from offload.engine.sockets import count_connections, dropped_connections
from offload.errors import MachineError, StartError

EVERY = 0.1  # s between two readings of the counters
COST = 0.02  # maximum share of a core for these readings: one takes 0.1 ms per process
SLOW_EVERY = 10  # counter readings per reading of memory, files, connections and members


class ResourceSampler:
    """Read a server's counters ten times per second and its memory once per second.

    Many processes are read less frequently, so that the sampler uses little CPU.

    Without a `pid` only the counters of the machine are read. `ours` are the pids of the upstream
    and of idle servers, whose CPU time is added to that of this process. `port` is the server's:
    the connections that its listen queue drops are counted, and with `keep_alive` its connections.
    If the system does not report drops by port, those of all ports of the machine are counted.
    `counts` are those of the server's processes.
    """

    def __init__(
        self,
        pid: int | None,
        ours: Sequence[int] = (),
        port: int | None = None,
        keep_alive: bool = False,
        counts: ResponseCounts | None = None,
    ) -> None:
        self._tree = None if pid is None else ProcessTree(pid)
        self._limits = None if pid is None else MemoryLimits(pid)
        self._ours = [tree for each in ours if (tree := _tree_of(each)) is not None]
        self._port, self._keep_alive = port, keep_alive
        self._queue = None if port is None or dropped_connections(port) is None else port
        self._counts = counts
        self._pids: list[int] = []  # of the processes that have counts
        self._connections: dict[int, int] = {}  # by pid
        self._quotas: dict[str, float] = {}  # CPUs, by the folder of a control group
        self._series = CounterSeries()
        self._peaks: dict[str, float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read_until_stopped, daemon=True)

    def __enter__(self) -> ResourceSampler:
        self._read()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._read()
        self._read_memory()

    def between(self, began: float | None, ended: float | None) -> Resources:
        """Return the resources used in a window of time.monotonic().

        If `began` or `ended` is None, use all readings. Memory, sizes and connections are peaks of
        the whole load.
        """
        window = None if began is None or ended is None else (began, ended)
        seconds = self._series.seconds if window is None else window[1] - window[0]
        increases = {key: self._series.increase(key, window) for key in _COUNTERS}
        return Resources(
            memory=Memory(
                pss_mib=self._peaks.get("memory_pss_mib"),
                uss_mib=self._peaks.get("memory_uss_mib"),
                rss_mib=self._peaks.get("memory_rss_mib"),
                whole_mib=self._peaks.get("memory_whole_mib"),
            ),
            memory_limit=self.memory_limit(),
            processes=_whole(self._peaks.get("processes")),
            threads=_whole(self._peaks.get("threads")),
            fds=_whole(self._peaks.get("fds")),
            cpu_s=_rounded(increases["cpu_s"]),
            queued_s=_rounded(increases["queued_s"]),
            children_cpu_s=_rounded(increases["children_s"]),
            switches_voluntary=_whole(increases["switches_voluntary"]),
            switches_involuntary=_whole(increases["switches_involuntary"]),
            connections=tuple(sorted(self._connections.values(), reverse=True)) or None,
            requests=self._requests(window),
            shares=self._shares(window),
            listen_overflows=_whole(increases["overflows"]),
            throttling=self._throttling(window),
            ports=ClientPorts(
                host.client_ports(),
                _whole(self._peaks.get("time_wait")),
                _whole(increases["opened"]),
            ),
            page_faults=_whole(increases["page_faults"]),
            host=HostUse(
                busy_s=_rounded(increases["busy_s"]),
                own_cpu_s=_rounded(increases["own_s"]),
                steal=_share(increases["steal_s"], seconds * host.cpu_count()),
                cpu_pressure=_share(increases["pressure_s"], seconds),
                started=_whole(increases["started"]),
            ),
        )

    def _throttling(self, window: tuple[float, float] | None) -> Throttling:
        """Return the counts of the group whose quota stopped the server most often."""
        found = []
        for group, quota in self._quotas.items():
            counts = [self._series.increase(f"{each} {group}", window) for each in QUOTA_COUNTS]
            periods, throttled, stopped_s = counts
            found.append(Throttling(quota, _whole(periods), _whole(throttled), _rounded(stopped_s)))
        return max(
            found,
            key=lambda each: (each.throttled or 0, -(each.quota or 0.0)),
            default=Throttling(),
        )

    def memory_limit(self) -> MemoryLimit:
        """Return how near the server came to its limits of memory in the whole load."""
        return MemoryLimit() if self._limits is None else self._limits.found()

    def _requests(self, window: tuple[float, float] | None) -> tuple[int, ...] | None:
        """Return the requests of each process, in descending order; None if some are unknown."""
        found = [self._series.increase(f"requests {n}", window) for n in range(len(self._pids))]
        known = [round(count) for count in found if count is not None]
        return tuple(sorted(known, reverse=True)) if known and len(known) == len(found) else None

    def _shares(self, window: tuple[float, float] | None) -> tuple[ProcessShare, ...]:
        """Return the share of each process, that with most requests first."""
        found = [
            ProcessShare(
                _whole(self._series.increase(f"requests {n}", window)),
                self._connections.get(pid, 0) if self._connections else None,
                _rounded(self._series.increase(f"cpu {n}", window)),
            )
            for n, pid in enumerate(self._pids)
        ]
        return tuple(sorted(found, key=lambda each: -(each.requests or 0)))

    def _read_until_stopped(self) -> None:
        count, took = 0, 0.0
        while not self._stopped.wait(max(EVERY, took / COST)):
            count += 1
            began = time.thread_time()
            self._read()
            took = time.thread_time() - began
            if count % SLOW_EVERY == 0:
                self._read_memory()
            if count % SLOW_EVERY == SLOW_EVERY // 2:
                self._count_connections()

    def _read(self) -> None:
        reading = host.read_counters()
        if self._queue is not None:
            reading["overflows"] = dropped_connections(self._queue)
        used = [tree.cpu_s() for tree in self._ours]
        known = [seconds for seconds in used if seconds is not None]
        reading["own_s"] = time.process_time() + sum(known) if len(known) == len(used) else None
        if self._counts is not None:
            counts = self._counts.by_process()
            self._pids = [pid for pid, _ in counts]
            for n, (pid, count) in enumerate(counts):
                reading |= {f"requests {n}": float(count), f"cpu {n}": _cpu_s(pid)}
        if self._tree is not None:
            reading |= self._tree.counters()
            self._update_peaks(self._tree.sizes())
            for group, quota in resource_limits.quota_counts(self._tree.root.pid).items():
                self._quotas[group] = quota.quota
                reading |= {f"{each} {group}": getattr(quota, each) for each in QUOTA_COUNTS}
        self._series.add(time.monotonic(), reading)

    def _read_memory(self) -> None:
        self._update_peaks({"time_wait": host.time_wait()})
        for tree in self._ours:
            tree.refresh()
        if self._tree is not None:
            self._tree.refresh()
            self._update_peaks(self._tree.memory())
            if self._limits is not None:
                self._limits.update(self._tree.members)
            self._update_peaks({"fds": self._tree.open_files()})

    def _count_connections(self) -> None:
        if self._tree is not None and self._port is not None and self._keep_alive:
            counts = count_connections(self._tree.members, self._port)
            self._connections = max(self._connections, counts, key=lambda each: sum(each.values()))

    def _update_peaks(self, values: Mapping[str, float | None]) -> None:
        for key, value in values.items():
            if value is not None:
                self._peaks[key] = max(value, self._peaks.get(key, value))


QUOTA_COUNTS = ("periods", "throttled", "stopped_s")  # of resource_limits.QuotaCounts
_COUNTERS = (
    "cpu_s",
    "queued_s",
    "children_s",
    "started",
    "switches_voluntary",
    "switches_involuntary",
    "busy_s",
    "own_s",
    "steal_s",
    "pressure_s",
    "overflows",
    "opened",
    "page_faults",
)


def _page_faults(process: psutil.Process) -> float | None:
    """Return the page faults of a process and of its reaped children that needed no disk."""
    try:
        words = Path(f"/proc/{process.pid}/stat").read_bytes().rpartition(b")")[2].split()
    except FileNotFoundError:
        if sys.platform == "linux":
            raise psutil.NoSuchProcess(process.pid) from None
        return None
    return float(words[7]) + float(words[8])


def _cpu_s(pid: int) -> float | None:
    """Return the CPU time of one process in s; None if it has ended."""
    with suppress(psutil.Error):
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)
    return None


def _tree_of(pid: int) -> ProcessTree | None:
    try:
        return ProcessTree(pid)
    except StartError:  # it has ended; if it was the upstream, tasks fail and report that
        return None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _share(part: float | None, whole: float) -> float | None:
    return None if part is None or whole <= 0 else round(part / whole, 4)


MIB = 1024 * 1024
MOST_THREADS = 256  # reading the context switches of a thread takes 25 us: more would disturb


class ProcessTree:
    """A process, its descendants and adopted orphans of its group, at the last `refresh`.

    This process adopts the orphans (`prctl.adopt_orphans`). Raise StartError if the root has ended.
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

        `cpu_s` is that of `cpu_s()`, and `children_s` its part of reaped children. Other counters
        are sums over all threads, including those that have ended (Linux): their context switches,
        and `queued_s`, the time in which they waited for a CPU.
        """
        pids = [process.pid for process in self.members]
        voluntary, involuntary = self._switches.update(pids) or (None, None)
        [queued_ns] = self._queued.update(pids) or (None,)
        return {
            "cpu_s": self.cpu_s(),
            "switches_voluntary": voluntary,
            "switches_involuntary": involuntary,
            "queued_s": None if queued_ns is None else queued_ns / 1e9,
            "children_s": self._total(lambda p: sum(p.cpu_times()[2:4])),
            "page_faults": self._total(_page_faults),
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
        threads = [(pid, thread) for pid in pids for thread in thread_ids(pid)]
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
        with open(f"{thread}/status", "rb") as file:  # noqa: PTH123 - in half the time
            text = file.read()
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


def thread_ids(pid: int) -> list[int]:
    """Return the ids of the threads of a process; none if it has ended."""
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
        """Return how many requests each process has answered since the start of the server."""
        return [count for _, count in self.by_process()]

    def by_process(self) -> list[tuple[int, int]]:
        """Return the pid of each process, and how many requests it has answered.

        A process that replaces another one continues its count.
        """
        found = []
        for at in range(0, len(self._counts), self._columns):
            row = self._counts[at : at + self._columns]
            if not row[0]:
                break
            found.append((row[0], sum(row[index] for index in self._responses)))
        return found


def open_response_counts(facts: Mapping[str, Any]) -> ResponseCounts | None:
    """Return a reader of the server that reported `facts`; None if its counts are unknown."""
    layout = facts.get("process_counts")
    try:
        return None if layout is None else ResponseCounts(layout)
    except (OSError, ValueError):
        return None


def tree(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants; empty if it has ended."""
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


LONGEST_S, POLL_S = 3.0, 0.1  # s until a collection has ended; a guess


def measure_idle_memory(pid: int) -> tuple[float | None, float | None]:
    """Return the memory in MiB before and after the collection: private pages, shared ones once.

    None: unknown. A server collects on SIGURG (see serving/metrics/probe.py).
    """
    try:
        tree = ProcessTree(pid)
    except StartError:  # it has ended
        return None, None
    before = tree.memory()["memory_whole_mib"]
    used_s = tree.cpu_s()
    for process in tree.members:
        with suppress(psutil.Error):
            process.send_signal(signal.SIGURG)
    ends = time.monotonic() + LONGEST_S
    while time.monotonic() < ends:
        time.sleep(POLL_S)
        if used_s == (used_s := tree.cpu_s()):
            break
    return before, tree.memory()["memory_whole_mib"]
