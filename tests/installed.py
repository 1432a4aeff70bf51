"""Servers by kind, what each server lacks on this machine, and the newest other Python."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from offload.engine.server import Python, find_interpreters
from offload.registry import catalog, places

MISSING = {
    name: [
        *(need for need in entry.needs if importlib.util.find_spec(need) is None),
        *(["a newer Python"] if entry.needs_python > sys.version_info[:2] else []),
    ]
    for name, entry in catalog.servers().items()
}
PLAIN = [name for name, entry in catalog.servers().items() if "PLAIN" in entry.constants]
EVERY = [name for name in MISSING if name not in PLAIN]
EXTERNAL_WORKERS = [
    name for name, entry in catalog.servers().items() if "EXTERNAL_WORKERS" in entry.constants
]
# OWN: servers that run tasks in their own process
OWN = [name for name in EVERY if name not in EXTERNAL_WORKERS]
POOLS = [name for name in OWN if "workers" in catalog.find_server(name).settings]
SERVERS = [name for name in OWN if not MISSING[name]]  # those that can run here
KINDS = ("sync", "loop", "threads", "processes", "pipes", "prefork")  # one server of each kind


def newest_other_python(least: tuple[int, ...] = (3, 11)) -> Python | None:
    """Return the newest interpreter here that has the GIL and is not the running one, if any."""
    for each in find_interpreters():
        version = tuple(map(int, each.version.split(".")))
        if version >= least and each.gil_enabled and each.path != sys.executable:
            return each
    return None


def one_of_each_kind(servers: list[str]) -> list[object]:
    """Return servers as test parameters; those that are not in KINDS are slow."""
    slow = pytest.mark.slow
    return [name if name in KINDS else pytest.param(name, marks=slow) for name in servers]


def require(server: str) -> None:
    """Skip the test if a server cannot run here; the reason names what is missing."""
    if MISSING[server]:
        pytest.skip(reason(server))


def reason(server: str) -> str:
    """Return why a server cannot run here: the first package that it lacks, or its Python."""
    if needed := ".".join(map(str, catalog.find_server(server).needs_python)):
        return f"Python {needed} is not used: make test-all PYTHON=python{needed}"
    return lacks([*MISSING[server], server][0])


def lacks(module: str) -> str:
    """Return that a package or tool is not installed: tests with this reason count as one skip."""
    package = places.PROVIDED_BY.get(module, module).replace("_", "-")
    return f"{package} is not installed: make test-all"
