"""Sample the resources of a server from outside while a load runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from offload.bench.telemetry import host, sockets
from offload.bench.telemetry.host import CounterSeries
from offload.bench.telemetry.processes import ProcessTree, ResponseCounts
from offload.engine.record import HostUse, Memory, Resources
from offload.errors import StartError

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
        self._ours = [tree for each in ours if (tree := _tree_of(each)) is not None]
        self._port, self._keep_alive = port, keep_alive
        self._queue = None if port is None or sockets.dropped_connections(port) is None else port
        self._counts = counts
        self._processes = 0  # that have counts
        self._connections: tuple[int, ...] = ()
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
            processes=_whole(self._peaks.get("processes")),
            threads=_whole(self._peaks.get("threads")),
            fds=_whole(self._peaks.get("fds")),
            cpu_s=_rounded(increases["cpu_s"]),
            queued_s=_rounded(increases["queued_s"]),
            switches_voluntary=_whole(increases["switches_voluntary"]),
            switches_involuntary=_whole(increases["switches_involuntary"]),
            connections=self._connections or None,
            requests=self._requests(window),
            listen_overflows=_whole(increases["overflows"]),
            host=HostUse(
                busy_s=_rounded(increases["busy_s"]),
                own_cpu_s=_rounded(increases["own_s"]),
                steal=_share(increases["steal_s"], seconds * host.cpu_count()),
                cpu_pressure=_share(increases["pressure_s"], seconds),
            ),
        )

    def _requests(self, window: tuple[float, float] | None) -> tuple[int, ...] | None:
        """Return the requests of each process, in descending order; None if some are unknown."""
        found = [self._series.increase(f"requests {n}", window) for n in range(self._processes)]
        known = [round(count) for count in found if count is not None]
        return tuple(sorted(known, reverse=True)) if known and len(known) == len(found) else None

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
            reading["overflows"] = sockets.dropped_connections(self._queue)
        used = [tree.cpu_s() for tree in self._ours]
        known = [seconds for seconds in used if seconds is not None]
        reading["own_s"] = time.process_time() + sum(known) if len(known) == len(used) else None
        if self._counts is not None:
            counts = self._counts.responses()
            self._processes = len(counts)
            reading |= {f"requests {n}": float(count) for n, count in enumerate(counts)}
        if self._tree is not None:
            reading |= self._tree.counters()
            self._update_peaks(self._tree.sizes())
        self._series.add(time.monotonic(), reading)

    def _read_memory(self) -> None:
        for tree in self._ours:
            tree.refresh()
        if self._tree is not None:
            self._tree.refresh()
            self._update_peaks(self._tree.memory())
            self._update_peaks({"fds": self._tree.open_files()})

    def _count_connections(self) -> None:
        if self._tree is not None and self._port is not None and self._keep_alive:
            counts = sockets.count_connections(self._tree.members, self._port) or ()
            self._connections = max(self._connections, counts, key=sum)

    def _update_peaks(self, values: Mapping[str, float | None]) -> None:
        for key, value in values.items():
            if value is not None:
                self._peaks[key] = max(value, self._peaks.get(key, value))


_COUNTERS = (
    "cpu_s",
    "queued_s",
    "switches_voluntary",
    "switches_involuntary",
    "busy_s",
    "own_s",
    "steal_s",
    "pressure_s",
    "overflows",
)


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
