"""The servers that answer in their own process and can run here; FOREIGN ones have other tests."""

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
SERVERS = [
    name
    for name, entry in catalog.servers().items()
    if not MISSING[name] and "FOREIGN" not in entry.constants
]
FOREIGN = [name for name, entry in catalog.servers().items() if "FOREIGN" in entry.constants]
POOLS = [name for name in SERVERS if "workers" in catalog.find_server(name).settings]


def param(server: str, *more: object) -> object:
    """Give a parameter for a server, which is skipped with the reason where it cannot run."""
    reason = f"{server} needs {' and '.join(MISSING[server])}: make suites"
    mark = pytest.mark.skipif(bool(MISSING[server]), reason=reason)
    return pytest.param(server, *more, marks=mark, id=server)
