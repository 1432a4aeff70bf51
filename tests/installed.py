"""Servers by kind, and the reason why one cannot run here: its tests are skipped, not left out."""

from __future__ import annotations

import importlib.util
import sys

import pytest

import catalog

MISSING = {
    name: [
        *(need for need in entry.needs if importlib.util.find_spec(need) is None),
        *(["a newer Python"] if entry.needs_python > sys.version_info[:2] else []),
    ]
    for name, entry in catalog.servers().items()
}
EVERY = list(MISSING)
FOREIGN = [name for name, entry in catalog.servers().items() if "FOREIGN" in entry.constants]
OWN = [name for name in EVERY if name not in FOREIGN]  # they answer in their own process
POOLS = [name for name in OWN if "workers" in catalog.find_server(name).settings]
SERVERS = [name for name in OWN if not MISSING[name]]  # those that can run here


def require(server: str) -> None:
    """Skip the test where a server cannot run; all from here, so that a reason is one line."""
    if MISSING[server]:
        python = ".".join(map(str, catalog.find_server(server).needs_python))
        how = f"make test-all PYTHON=python{python}" if python else "make test-all"
        pytest.skip(f"{server} needs {' and '.join(MISSING[server])}: {how}")
