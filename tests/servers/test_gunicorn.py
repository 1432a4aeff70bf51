"""Servers under gunicorn, beyond the contract: greenlets, dirty workers, nothing left behind."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from offload.engine import server
from tests import ROOT
from tests.http_clients import get, in_threads
from tests.installed import EXTERNAL_WORKERS, require
from tests.servers.any_task import BEGINS
from tests.servers.chosen import Chosen
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.waiting import is_running, wait_until

pytestmark = pytest.mark.server
TRIES = 10  # for two requests to meet on a busy machine

ASYNC_FAULTS = """
import asyncio, sys
async def exits():
    await asyncio.sleep(0.01)
    sys.exit(3)
async def waits():
    await asyncio.sleep(0.01)
    return "waited"
"""
TELLS = """
import os, threading
def tells(): return f"{os.getpid()} {os.getppid()}"
def kills(): os._exit(1)
"""


@pytest.mark.parametrize("task", ["sleep_sync", "sleep_async_split"])
def test_greenlets_wait_together_whether_a_task_is_awaited_or_not(
    task: str, tmp_path: Path
) -> None:
    require("gunicorn_gevent")
    chosen = Chosen("gunicorn_gevent", tmp_path)
    try:
        for _ in range(TRIES):
            url = chosen.choose(task).url
            assert [status for status, _ in in_threads(2, lambda: get(url))] == [200, 200]  # noqa: B023
            if (events := chosen.events())[:2] == [BEGINS, BEGINS]:
                break
        assert events[:2] == [BEGINS, BEGINS]
    finally:
        chosen.stop()


def test_a_task_that_exits_does_not_end_the_event_loop_of_a_gevent_worker(tmp_path: Path) -> None:
    require("gunicorn_gevent")
    (tmp_path / "faults.py").write_text(ASYNC_FAULTS)
    chosen = Chosen("gunicorn_gevent", tmp_path)
    try:
        for _ in range(2):
            status, body = chosen.answer(f"{tmp_path}/faults.py:exits")
            assert (status, b"raised SystemExit: 3" in body) == (500, True)
            assert chosen.answer(f"{tmp_path}/faults.py:waits") == (200, b"waited")
    finally:
        chosen.stop()


def test_greenlets_are_limited(at_work: Any, tmp_path: Path) -> None:
    """A connection that waits for a greenlet is accepted late, and answered."""
    running, clients = at_work("gunicorn_gevent", "sleep_sync", requests=3, workers=1)
    assert [client.recv(12)[-3:] for client in clients] == [b"200"] * 3
    events = (tmp_path / "events").read_text().split()
    assert events == ["begins", "ends"] * 3
    assert running.facts["workers"] == 1


def test_a_dirty_worker_runs_the_task(start: Any, tmp_path: Path) -> None:
    (tmp_path / "tells.py").write_text(TELLS)
    running = start("gunicorn_dirty", f"{tmp_path}/tells.py:tells", workers=2)
    pids = {tuple(map(int, get(running.url)[1].split())) for _ in range(8)}
    assert len({pid for pid, _ in pids}) == 2  # both, one after the other
    [arbiter] = {parent for _, parent in pids}
    assert psutil.Process(arbiter).ppid() == running.process.pid


def test_a_dirty_worker_that_dies_at_work_is_a_500(start: Any, tmp_path: Path) -> None:
    (tmp_path / "tells.py").write_text(TELLS)
    running = start("gunicorn_dirty", f"{tmp_path}/tells.py:kills", workers=1)
    for _ in range(3):
        status, body = get(running.url)
        assert (status, body.count(b"\n")) == (500, 1)
        assert b"tells.py:kills: Worker communication failed" in body
    assert get(running.url + "resources/")[0] == 200


def test_a_dirty_arbiter_ends_with_a_killed_server(start: Any, own_temporary: Path) -> None:
    """Even a stopped one, which cannot notice that its parent is gone."""
    running = start("gunicorn_dirty", "noop_sync", workers=1)
    children = psutil.Process(running.process.pid).children()
    (arbiter,) = (child for child in children if child.children())
    (worker,) = arbiter.children()
    arbiter.suspend()
    running.process.kill()
    try:
        assert wait_until(lambda: not is_running(arbiter) and not is_running(worker), 10)
    finally:
        for process in (arbiter, worker):
            with suppress(psutil.NoSuchProcess):
                process.kill()


def test_two_servers_with_dirty_workers_do_not_disturb_each_other(start: Any) -> None:
    """gunicorn kills a dirty arbiter of the same name as an orphan."""
    first, second = (start("gunicorn_dirty", "noop_sync", workers=1) for _ in range(2))
    assert [get(each.url) for each in (first, second)] == [(200, b"ok")] * 2
    server.stop(second)
    assert get(first.url) == (200, b"ok")


def test_the_modules_of_a_gevent_workers_task_are_patched(start: Any, tmp_path: Path) -> None:
    (tmp_path / "patched.py").write_text(
        "import ssl, urllib3\nfrom time import sleep\n"
        "def where():\n"
        "    context = urllib3.util.ssl_.create_urllib3_context()\n"
        "    return f'{sleep.__module__} {type(context).__module__}'\n"
    )
    running = start("gunicorn_gevent", f"{tmp_path}/patched.py:where")
    assert get(running.url) == (200, b"gevent.hub gevent.ssl")


def test_a_worker_class_that_cannot_be_imported_is_one_line() -> None:
    require("gunicorn_gevent")
    hide = (
        "import sys; sys.modules['gunicorn.workers.ggevent'] = None\n"
        "from offload.serving.main import main\n"
        "sys.exit(main(['gunicorn_gevent', 'noop_sync', '0']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", hide], cwd=ROOT, capture_output=True, text=True, timeout=20
    )
    assert (done.returncode, done.stderr.count("\n")) == (4, 1), done.stderr
    assert done.stderr.startswith("error: gunicorn: class uri 'gevent' invalid or not found")
    assert "import of gunicorn.workers.ggevent halted" in done.stderr


def test_an_application_that_exits_with_a_text_ends_its_worker_with_it(tmp_path: Path) -> None:
    (tmp_path / "exits.py").write_text(
        "import sys\ndef app(environ, start_response): sys.exit('it exits')\n"
    )
    file = tmp_path / "8000.json"
    settings = {"SERVER_WORKERS": "1", "SERVER_FILE": str(file), "TASK_PATH": str(tmp_path)}
    process = begin("gunicorn_gthread", "app=exits:app", "0", **settings)
    try:
        assert wait_until(file.exists)
        with suppress(http.client.RemoteDisconnected, ConnectionResetError):
            get(f"http://127.0.0.1:{json.loads(file.read_bytes())['port']}/")
        process.terminate()
    finally:
        code, lines = wait_for_end(process)
    assert code == 0
    assert "a worker exits: it exits" in lines
    assert not any("ValueError" in line for line in lines)


@pytest.mark.parametrize("name", [n for n in EXTERNAL_WORKERS if "gunicorn" in n])
def test_nothing_is_written_to_the_home_folder(
    name: str, start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home))
    running = start(name, "noop_sync")
    assert get(running.url)[0] == 200
    assert not wait_until(lambda: [*home.iterdir()], 0.5)
