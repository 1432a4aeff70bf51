"""Resources of a server, sampled from outside while a load runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from offload.bench.telemetry import connections, host_counters
from offload.bench.telemetry.counters import Series
from offload.bench.telemetry.process_tree import Tree
from offload.errors import StartError

EVERY = 0.1  # s between two readings of the counters, some 0.3 ms each
SELDOM = 10  # readings for one of memory, connections and the tree's members, some 6 ms


@dataclass(frozen=True)
class Resources:
    """What a process tree held at most and used in a window, and the machine's noise in it.

    Memory in MiB, summed over the tree: PSS counts a page shared by n processes as 1/n in each, so
    its sum is the memory in use; the sum of RSS counts shared pages once a process.
    `server_cpu_s` is the user and system time of the tree, with children that ended; `queued_s`
    what its threads waited for a CPU. `steal` and `cpu_pressure` are shares of the window from 0
    to 1, `busy_s` the CPU time of the whole machine, `own_cpu_s` that of the bench and of the
    upstream. None is not known.
    """

    memory_pss_mib: float | None = None
    memory_uss_mib: float | None = None
    memory_rss_mib: float | None = None
    processes: int | None = None
    threads: int | None = None
    fds: int | None = None
    server_cpu_s: float | None = None
    queued_s: float | None = None
    switches_voluntary: int | None = None
    switches_involuntary: int | None = None
    connections: tuple[int, ...] | None = None
    listen_overflows: int | None = None
    busy_s: float | None = None
    own_cpu_s: float | None = None
    steal: float | None = None
    cpu_pressure: float | None = None


class Watch:
    """Read a server's counters ten times a second, and its memory once, until `__exit__`.

    Of a server whose `pid` is None only the machine's own counts are known. `port` is the server's
    where its kept connections are to be counted.
    """

    def __init__(
        self, pid: int | None, upstream: int | None = None, port: int | None = None
    ) -> None:
        self._tree = None if pid is None else Tree(pid)
        self._upstream = _tree_of(upstream)
        self._port = port
        self._connections: tuple[int, ...] = ()
        self._series = Series()
        self._peaks: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read_until_over, daemon=True)

    def __enter__(self) -> Watch:
        self._read()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._read()
        self._weigh()

    def between(self, began: float | None, ended: float | None) -> Resources:
        """Give the resources of a window of time.monotonic(); of all that was watched for None."""
        window = None if began is None or ended is None else (began, ended)
        seconds = self._series.seconds if window is None else window[1] - window[0]
        grown = {key: self._series.growth(key, window) for key in _KEYS}
        return Resources(
            memory_pss_mib=self._peaks.get("memory_pss_mib"),
            memory_uss_mib=self._peaks.get("memory_uss_mib"),
            memory_rss_mib=self._peaks.get("memory_rss_mib"),
            processes=_whole(self._peaks.get("processes")),
            threads=_whole(self._peaks.get("threads")),
            fds=_whole(self._peaks.get("fds")),
            server_cpu_s=_rounded(grown["cpu_s"]),
            queued_s=_rounded(grown["queued_s"]),
            switches_voluntary=_whole(grown["switches_voluntary"]),
            switches_involuntary=_whole(grown["switches_involuntary"]),
            connections=self._connections or None,
            listen_overflows=_whole(self._series.growth("overflows")),
            busy_s=_rounded(grown["busy_s"]),
            own_cpu_s=_rounded(grown["own_s"]),
            steal=_share(grown["steal_s"], seconds * (psutil.cpu_count() or 1)),
            cpu_pressure=_share(grown["pressure_s"], seconds),
        )

    def _read_until_over(self) -> None:
        count = 0
        while not self._over.wait(EVERY):
            count += 1
            self._read()
            if count % SELDOM == 0:
                self._weigh()
            if count % SELDOM == SELDOM // 2:
                self._count()

    def _read(self) -> None:
        reading = host_counters.used()
        own: float | None = time.process_time()
        if self._upstream is not None:
            used = self._upstream.used()["cpu_s"]
            own = None if used is None or own is None else own + used
        reading["own_s"] = own
        if self._tree is not None:
            reading |= self._tree.used()
            self._peak(self._tree.held())
        self._series.add(time.monotonic(), reading)

    def _weigh(self) -> None:
        for tree in (self._tree, self._upstream):
            if tree is not None:
                tree.refresh()
        if self._tree is not None:
            self._peak(self._tree.memory())

    def _count(self) -> None:
        if self._tree is not None and self._port is not None:
            counts = connections.count_connections(self._tree.members, self._port) or ()
            self._connections = max(self._connections, counts, key=sum)

    def _peak(self, found: Mapping[str, float | None]) -> None:
        for key, value in found.items():
            if value is not None:
                self._peaks[key] = max(value, self._peaks.get(key, value))


_KEYS = (
    "cpu_s",
    "queued_s",
    "switches_voluntary",
    "switches_involuntary",
    "busy_s",
    "own_s",
    "steal_s",
    "pressure_s",
)


def _tree_of(upstream: int | None) -> Tree | None:
    try:
        return None if upstream is None else Tree(upstream)
    except StartError:  # the tasks will fail and say so
        return None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _share(part: float | None, whole: float) -> float | None:
    return None if part is None or whole <= 0 else round(part / whole, 4)
