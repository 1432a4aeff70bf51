"""Resources of a process tree, sampled from outside while a load runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import psutil

from errors import StartError

EVERY = 1.0  # s between two samples: a tree's children cost 4.5 ms to find, its PSS 1.4 ms
MIB = 1024 * 1024
T = TypeVar("T", int, float)


@dataclass(frozen=True)
class Resources:
    """Peaks of a process tree during a load, and what was used in it; None where not known.

    Memory in MiB, summed over the tree: PSS counts a page shared by n processes as 1/n in each, so
    its sum is the memory in use; the sum of RSS counts shared pages once a process.
    `server_cpu_s` is the user and system time of the tree, with children that ended and were
    waited for.
    `listen_overflows` are this machine's while the load ran.
    """

    memory_pss_mib: float | None = None
    memory_uss_mib: float | None = None
    memory_rss_mib: float | None = None
    processes: int | None = None
    threads: int | None = None
    fds: int | None = None
    server_cpu_s: float | None = None
    listen_overflows: int | None = None


class Watch:
    """Sample a process tree once a second from `__enter__` to `__exit__`; then `resources` is set.

    Of a tree whose root is None nothing is known but the machine's own counts.
    """

    def __init__(self, pid: int | None) -> None:
        self.resources = Resources()
        self._root = None if pid is None else _process(pid)
        self._samples: list[dict[str, float | None]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_over, daemon=True)

    def __enter__(self) -> Watch:
        self._cpu_s = self._used_s()
        self._overflows = listen_overflows()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._sample()
        now, then = listen_overflows(), self._overflows
        pss, uss, rss = (self._peak(key) for key in ("pss", "uss", "rss"))
        processes, threads, fds = (self._peak(key) for key in ("processes", "threads", "fds"))
        self.resources = Resources(
            memory_pss_mib=pss,
            memory_uss_mib=uss,
            memory_rss_mib=rss,
            processes=_whole(processes),
            threads=_whole(threads),
            fds=_whole(fds),
            server_cpu_s=_difference(self._used_s(), self._cpu_s),
            listen_overflows=_difference(now, then),
        )

    def _sample_until_over(self) -> None:
        while not self._over.wait(EVERY):
            self._sample()

    def _sample(self) -> None:
        if not (tree := self._tree()):
            return
        sizes = [size for process in tree if (size := _memory(process)) is not None]
        sample: dict[str, float | None] = {"processes": len(tree)}
        for key in ("pss", "uss", "rss"):
            values = [getattr(size, key, None) for size in sizes]
            known = [value for value in values if value is not None]
            sample[key] = (
                round(sum(known) / MIB, 2) if known and len(known) == len(values) else None
            )
        sample["threads"] = _total(tree, "num_threads")
        sample["fds"] = _total(tree, "num_fds")
        self._samples.append(sample)

    def _used_s(self) -> float | None:
        return _cpu_s(tree) if (tree := self._tree()) else None

    def _tree(self) -> list[psutil.Process]:
        if self._root is None:
            return []
        try:
            return [self._root, *self._root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _peak(self, key: str) -> float | None:
        known = [value for sample in self._samples if (value := sample[key]) is not None]
        return max(known, default=None)


def _process(pid: int) -> psutil.Process:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        raise StartError(f"the server (pid {pid}) ended before it was loaded") from None


def listen_overflows() -> int | None:
    """Count the connections dropped since boot as a listen queue was full; None off Linux."""
    try:
        names, values = (
            line.split()[1:]
            for line in Path("/proc/net/netstat").read_text().splitlines()
            if line.startswith("TcpExt:")
        )
    except (OSError, ValueError):
        return None
    return int(dict(zip(names, values, strict=True))["ListenOverflows"])


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _difference(after: T | None, before: T | None) -> T | None:
    return None if after is None or before is None else after - before


def _cpu_s(tree: list[psutil.Process]) -> float:
    total = 0.0
    for process in tree:
        try:
            total += sum(process.cpu_times()[:4])  # user, system, children_user, children_system
        except psutil.NoSuchProcess:
            continue
    return total


def _memory(process: psutil.Process) -> object | None:
    try:
        return process.memory_full_info()
    except psutil.Error:
        return None


def _total(tree: list[psutil.Process], method: str) -> int | None:
    try:
        return sum(int(getattr(process, method)()) for process in tree)
    except psutil.Error:
        return None
