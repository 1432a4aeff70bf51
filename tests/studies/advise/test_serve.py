"""The command `serve` of an answer starts the set-up that was advised, on each kind of server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from offload.engine import journal, running_servers
from offload.engine.processes import ProcessTree
from offload.engine.sockets import accepting_pids
from offload.registry import catalog
from offload.studies.advise.evidence import LOOPS, POOL, THREADS, Setup, kind_of
from offload.studies.advise.function import SERVERS
from offload.studies.advise.result import case_of, setup_of
from offload.suites import Case
from tests.applications import APPS
from tests.commands import free_port, served
from tests.http_clients import get
from tests.installed import require
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.server,
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="accepting processes are found on Linux"),
]
APPLICATIONS = {"asgi": "app=pure:app", "wsgi": "app=pure:wsgi"}


def setups(name: str) -> list[Setup]:
    """Return set-ups of a server as advised: one process and several, where it can have them."""
    entry = catalog.find_server(name)
    kind = kind_of(entry)
    if kind == POOL:
        return [Setup(name, POOL, 1, 3)]
    if entry.workers_are == "processes":
        return [Setup(name, THREADS, 3, 1)]
    workers = 2 if kind == THREADS else None
    counts = [1, 3] if "processes" in entry.settings else [1]
    return [Setup(name, kind, count, workers) for count in counts]


FUNCTIONS = [(each, "shop:quote") for name in SERVERS for each in setups(name)]
OF_APPLICATIONS = [
    (each, app)
    for kind, app in APPLICATIONS.items()
    for name in catalog.servers_of(kind)
    for each in setups(name)
]


@pytest.mark.parametrize(
    ("setup", "work"),
    [
        pytest.param(
            setup, work, marks=[pytest.mark.slow] * (setup.server not in SERVERS), id=setup.name
        )
        for setup, work in [*FUNCTIONS, *OF_APPLICATIONS]
    ],
)
def test_the_command_serves_what_was_advised(
    setup: Setup, work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(setup.server)
    monkeypatch.setenv("RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(journal, "RESULTS", tmp_path / "results")
    (tmp_path / "shop.py").write_text("def quote(): return '42'\n")
    path = APPS if work.startswith("app=") else tmp_path
    case = case_of(setup, Case("threads", work, path=str(path)), 8)
    assert setup_of(case) == setup
    port = free_port()
    with served(f"{case.command},port={port}"):
        assert get(f"http://127.0.0.1:{port}/")[0] == 200
        facts = running_servers.find_server(port)
        assert (facts["server"], facts["task"], facts["path"]) == (setup.server, work, str(path))
        assert_has_the_sizes(setup, facts)


def assert_has_the_sizes(setup: Setup, facts: dict[str, Any]) -> None:
    if setup.kind == POOL:
        assert facts["workers"] == len(facts["worker_gil_addresses"]) == setup.workers
        return
    if setup.kind == THREADS and "processes" in facts:
        assert facts["workers"] == setup.workers
    assert setup.kind != LOOPS or "workers" not in facts or setup.server == "gunicorn_gevent"
    root, port = facts["pid"], facts["port"]

    def accepting() -> set[int]:
        """The processes that serve: gunicorn's arbiter and granian's main process have the port."""
        found = accepting_pids(ProcessTree(root).members, port)
        return {*found} - ({root} if len(found) > 1 else set())

    assert wait_until(lambda: len(accepting()) == setup.processes), accepting()
