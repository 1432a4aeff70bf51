"""Counters of the machine: the resources that all its processes used (Linux).

If `taskset` restricts this process to some CPUs, the CPU times are those of these CPUs, because
processes on the other CPUs do not disturb it.
"""

from __future__ import annotations

import os
from pathlib import Path

import psutil

TICK = os.sysconf("SC_CLK_TCK")  # Hz, the unit of /proc/stat


def read() -> dict[str, float | None]:
    """Return counters since boot; None if the system does not report one.

    `busy_s` is the CPU time of all usable CPUs together, `steal_s` the time when the hypervisor
    used these CPUs, `pressure_s` the time in which at least one thread waited for a CPU (PSI),
    `overflows` the number of connections that full listen queues of all processes dropped.
    """
    return {**_stat(), "pressure_s": _pressure_s(), "overflows": _overflows()}


def cpu_count() -> int:
    """Return the number of CPUs whose times `read` returns."""
    return len(_usable() or ()) or psutil.cpu_count() or 1


def _usable() -> set[int] | None:
    """Return the CPUs that this process may use; None if it may use all."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    usable = os.sched_getaffinity(0)
    return usable if len(usable) < (psutil.cpu_count() or 1) else None


def _stat() -> dict[str, float | None]:
    usable = _usable()
    names = {"cpu"} if usable is None else {f"cpu{number}" for number in usable}
    lines = [line.split() for line in _text("/proc/stat").splitlines() if line.startswith("cpu")]
    own = [[int(word) for word in words[1:9]] for words in lines if words[0] in names]
    if len(own) < len(names) or any(len(times) < 8 for times in own):
        return {"busy_s": None, "steal_s": None}
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(sum, zip(*own, strict=True))
    return {"busy_s": (user + nice + system + irq + softirq) / TICK, "steal_s": steal / TICK}


def _pressure_s() -> float | None:
    for line in _text("/proc/pressure/cpu").splitlines():
        if line.startswith("some "):
            return int(line.rpartition("total=")[2]) / 1e6
    return None


def _overflows() -> float | None:
    lines = [
        line.split()[1:]
        for line in _text("/proc/net/netstat").splitlines()
        if line.startswith("TcpExt:")
    ]
    if len(lines) != 2:
        return None
    found = dict(zip(*lines, strict=True)).get("ListenOverflows")
    return None if found is None else float(found)


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
