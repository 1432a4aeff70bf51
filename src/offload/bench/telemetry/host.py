"""Facts about this machine: CPU, kernel, virtualisation, packages; None means unknown."""

from __future__ import annotations

import functools
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from offload import cores

PACKAGES = ("tornado", "fabric", "requests", "lxml", "feedparser", "psutil", "httptools", "uvloop")


@functools.cache
def environment() -> dict[str, object]:
    """Return the CPU, kernel, virtualisation, Python and packages of this machine."""
    return {
        "cpu": _cpu(),
        "cores": cores.available(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": f"{platform.system()} {platform.release()}",
        "virtualisation": _virtualisation(),
        "governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def sentence(facts: dict[str, object]) -> str:
    """Return an environment as one line for the head of a table; missing facts are "unknown"."""
    cpu, kernel = facts.get("cpu") or "unknown CPU", facts.get("kernel") or "unknown kernel"
    cores, python = (facts.get(name) or "unknown" for name in ("cores", "python"))
    guest = f", {facts['virtualisation']} guest" if facts.get("virtualisation") else ""
    return f"{cpu}, {cores} cores{guest}, {kernel}, Python {python}"


def load_average() -> tuple[float, float, float]:
    """Return the load averages; they are informative only, because they lag by a minute."""
    return os.getloadavg()


def _cpu() -> str | None:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or None


def _virtualisation() -> str | None:
    """Return the product name of the hypervisor, "virtual machine" if unknown, None without one."""
    if not any(
        "hypervisor" in line for line in _lines("/proc/cpuinfo") if line.startswith("flags")
    ):
        return None
    return _first_line("/sys/class/dmi/id/product_name") or "virtual machine"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _first_line(path: str) -> str | None:
    return next(iter(_lines(path)), None)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
