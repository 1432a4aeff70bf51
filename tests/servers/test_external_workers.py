"""Servers with workers of another program lose no request and leave nothing behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from offload import tasks
from offload.engine import server
from tests.commands import can_listen
from tests.http_clients import get, in_threads
from tests.installed import EXTERNAL_WORKERS
from tests.servers.any_task import BEGINS
from tests.servers.chosen import FAULTS
from tests.waiting import wait_until

pytestmark = pytest.mark.server
every = pytest.mark.parametrize("name", EXTERNAL_WORKERS)


@every
def test_a_task_by_its_name_answers_what_it_returns(name: str, start: Any) -> None:
    assert get(start(name, "xml_lxml_sync").url) == (200, tasks.call("xml_lxml_sync"))


@every
def test_sigterm_loses_no_request_that_is_worked_on(
    name: str, at_work: Any, tmp_path: Path
) -> None:
    running, clients = at_work(name, "sleep_async_split", requests=2)
    assert wait_until(lambda: (tmp_path / "events").read_text().count(BEGINS) == 2)
    running.process.send_signal(signal.SIGTERM)  # Ctrl-C does in gunicorn, as it documents
    assert [client.recv(12)[-3:] for client in clients] == [b"200"] * 2
    assert wait_until(lambda: running.process.poll() is not None, 20)
    server.stop(running)
    assert (running.process.returncode, running.left) == (0, False)
    assert running.ending.get("completed", 2) == 2  # unknown of a process for each request


@pytest.mark.usefixtures("own_temporary")
@every
def test_kill_9_leaves_no_process(
    name: str, at_work: Any, mark: Callable[[], list[psutil.Process]]
) -> None:
    running, _ = at_work(name, f"{FAULTS}:slow")
    assert mark()
    running.process.kill()
    assert wait_until(lambda: not mark(), 10)
    assert wait_until(lambda: can_listen(int(running.facts["port"])), 10)


RESTARTED = [n for n in EXTERNAL_WORKERS if "gunicorn" in n or n in ("prefork", "uvicorn_workers")]


@pytest.mark.parametrize("name", RESTARTED)
def test_a_worker_that_is_killed_is_replaced(name: str, start: Any, tmp_path: Path) -> None:
    (tmp_path / "tells.py").write_text("import os\ndef tells(): return str(os.getpid())\n")
    running = start(name, f"{tmp_path}/tells.py:tells")
    before = {pid for _ in range(5) for pid in responding(running.url)}
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: responding(running.url) - before, 20)
    assert running.process.poll() is None


def responding(url: str) -> set[int]:
    """Return the pids of the workers that respond to eight requests."""
    found = in_threads(8, lambda: get(url))
    return {int(answer[1]) for answer in found if isinstance(answer, tuple) and answer[0] == 200}


@pytest.mark.parametrize(
    "name",
    [
        "gunicorn_sync",
        "gunicorn_gthread",
        "gunicorn_gevent",
        "gunicorn_dirty",
        "flask_gunicorn",
    ],
)
def test_workers_serve_as_many_waiting_requests_at_once(name: str, start: Any) -> None:
    running = start(name, "sleep_sync", workers=3)
    get(running.url)
    began = time.monotonic()
    assert [status for status, _ in in_threads(3, lambda: get(running.url))] == [200] * 3
    assert 0.25 <= time.monotonic() - began < 3 * 0.28
