"""Resources of a server, sampled from outside while a load runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import psutil

from offload.bench.records.record import HostUse, Memory, Resources
from offload.bench.telemetry import connections, host_counters
from offload.bench.telemetry.counters import Series
from offload.bench.telemetry.process_tree import Tree
from offload.errors import StartError

EVERY = 0.1  # s between two readings of the counters, some 0.3 ms each
SELDOM = 10  # readings for one of memory, connections and the tree's members, some 6 ms


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
            memory=Memory(
                pss_mib=self._peaks.get("memory_pss_mib"),
                uss_mib=self._peaks.get("memory_uss_mib"),
                rss_mib=self._peaks.get("memory_rss_mib"),
            ),
            processes=_whole(self._peaks.get("processes")),
            threads=_whole(self._peaks.get("threads")),
            fds=_whole(self._peaks.get("fds")),
            cpu_s=_rounded(grown["cpu_s"]),
            queued_s=_rounded(grown["queued_s"]),
            switches_voluntary=_whole(grown["switches_voluntary"]),
            switches_involuntary=_whole(grown["switches_involuntary"]),
            connections=self._connections or None,
            listen_overflows=_whole(self._series.growth("overflows")),
            host=HostUse(
                busy_s=_rounded(grown["busy_s"]),
                own_cpu_s=_rounded(grown["own_s"]),
                steal=_share(grown["steal_s"], seconds * (psutil.cpu_count() or 1)),
                cpu_pressure=_share(grown["pressure_s"], seconds),
            ),
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
