"""The machine a run was measured on, as far as it tells; None is unknown."""

from __future__ import annotations

import functools
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from offload.bench.telemetry import cores

PACKAGES = ("tornado", "fabric", "requests", "lxml", "feedparser", "psutil", "httptools", "uvloop")


@functools.cache
def environment() -> dict[str, object]:
    """Name the CPU, kernel, virtualisation, Python and packages of this machine."""
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
    """Put an environment into one line for the head of a table."""
    cpu = facts["cpu"] or "unknown CPU"
    guest = f", {facts['virtualisation']} guest" if facts["virtualisation"] else ""
    return f"{cpu}, {facts['cores']} cores{guest}, {facts['kernel']}, Python {facts['python']}"


def of_pools(workers: int) -> str:
    """Put this machine, today and the size of all pools into one line."""
    today = datetime.now(UTC).date().isoformat()
    return f"Measured {today} on {sentence(environment())}; {workers} workers a pool."


def load_average() -> tuple[float, float, float]:
    """Give the load averages: context, never a gate, since they lag a minute."""
    return os.getloadavg()


def _cpu() -> str | None:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or None


def _virtualisation() -> str | None:
    """Name the hypervisor by its product name, or say that there is one."""
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
