"""Counters of the machine: the resources that all its processes used (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")  # Hz, the unit of /proc/stat


def read() -> dict[str, float | None]:
    """Return counters since boot; None if the system does not report one.

    `busy_s` is the CPU time of all cores together, `steal_s` the time taken by the hypervisor,
    `pressure_s` the time in which at least one thread waited for a CPU (PSI), `overflows` the
    number of connections that full listen queues of all processes dropped.
    """
    return {**_stat(), "pressure_s": _pressure_s(), "overflows": _overflows()}


def _stat() -> dict[str, float | None]:
    words = _text("/proc/stat").partition("\n")[0].split()
    if len(words) < 9:
        return {"busy_s": None, "steal_s": None}
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(word) for word in words[1:9])
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
