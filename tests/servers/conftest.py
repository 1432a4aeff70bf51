"""Servers that several tests share if sharing has no effect on the results."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offload import upstream
from offload.engine import server
from offload.registry import catalog
from offload.suites import Case
from tests import ROOT
from tests.installed import EVERY, one_of_each_kind, require
from tests.servers.chosen import ANY, Chosen, files_in, has_started
from tests.waiting import wait_until

AtWork = tuple[server.Server, list[socket.socket]]
TASKS = [n for n, entry in catalog.tasks().items() if "internet" not in entry.needs]
CALL = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from offload import tasks
with ThreadPoolExecutor(len(sys.argv)) as threads:
    bodies = threads.map(tasks.call, sys.argv[1:])
    print(json.dumps({name: body.hex() for name, body in zip(sys.argv[1:], bodies)}))
"""


@pytest.fixture(scope="session")
def fetched_from(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Run a separate upstream for these tests; return the environment with its addresses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UPSTREAM_FOLDER", str(tmp_path_factory.mktemp("upstream")))
        holding = upstream.hold()
    with holding:
        yield holding.upstream.environment()


@pytest.fixture(scope="session")
def bodies(fetched_from: dict[str, str]) -> dict[str, bytes]:
    """The result of each task, by name, called in a process without a server."""
    done = subprocess.run(
        [sys.executable, "-c", CALL, *TASKS],
        cwd=ROOT,
        env={**os.environ, **fetched_from},
        capture_output=True,
        check=True,
        timeout=40,
    )
    return {name: bytes.fromhex(body) for name, body in json.loads(done.stdout).items()}


@pytest.fixture(scope="session", params=one_of_each_kind(EVERY))
def noop_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[server.Server]:
    """A server of each kind that runs `noop_sync`, with a folder for users' tasks."""
    require(request.param)
    running = server.start(
        Case(request.param, "noop_sync", path=str(tmp_path_factory.mktemp("path"))), {}
    )
    yield running
    server.stop(running)


@pytest.fixture(scope="session", params=one_of_each_kind(EVERY))
def any_server(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    fetched_from: dict[str, str],
) -> Iterator[Chosen]:
    """A server of each kind; each request selects its task, and its queueing time is reported."""
    require(request.param)
    folder = tmp_path_factory.mktemp("any")
    chosen = Chosen(request.param, folder, {**fetched_from, "SERVER_QUEUE_CLOCK": "1"})
    yield chosen
    chosen.stop()


@pytest.fixture
def at_work(
    start: Callable[..., server.Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., AtWork]]:
    """Start a server by `at_work("threads", task)` that is processing a request of a client."""
    clients: list[socket.socket] = []

    def begin(name: str, task: str, requests: int = 1, **settings: object) -> AtWork:
        for key, value in files_in(tmp_path).items():
            monkeypatch.setenv(key, value)
        (tmp_path / "task").write_text(task)
        running = start(name, ANY, **settings)
        address = ("127.0.0.1", int(str(running.facts["port"])))
        for _ in range(requests):
            clients.append(socket.create_connection(address, timeout=20))
            clients[-1].sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert wait_until(lambda: has_started(tmp_path))
        return running, clients

    yield begin
    for client in clients:
        client.close()


@pytest.fixture
def own_temporary(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Set TMPDIR to a folder that pytest removes: killed servers leave multiprocessing's folders.

    The folder has a short name, because paths of UNIX sockets are limited to 107 bytes.
    """
    folder = tmp_path_factory.mktemp("t")
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder
