"""Servers without a pool, beyond the contract: a new worker for each request, up to a limit."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from offload.serving.lifecycle import log
from offload.serving.lifecycle.request_child import RequestChild
from tests.http_clients import get, in_threads
from tests.servers.lifecycle.command_line import begin
from tests.waiting import read_line, wait_until

pytestmark = pytest.mark.server
NAMES = ("thread_per_request", "fork_per_request")

# Each request notes where it runs, and waits until the file `go` is there.
HOLDS = """
import os, threading, time
from pathlib import Path
HERE = Path(__file__).parent
def notes():
    where = f"{os.getpid()}-{threading.get_native_id()}"
    (HERE / f"{where}.{time.monotonic_ns()}.note").touch()
    while not (HERE / "go").exists():
        time.sleep(0.01)
    return where
"""


@pytest.mark.parametrize("name", NAMES)
def test_each_request_has_a_worker_of_its_own_and_only_as_many_at_once(
    name: str, start: Any, tmp_path: Path
) -> None:
    (tmp_path / "holds.py").write_text(HOLDS)
    running = start(name, f"{tmp_path}/holds.py:notes", workers=2)
    answers: list[tuple[int, bytes]] = []
    clients = [threading.Thread(target=lambda: answers.append(get(running.url))) for _ in range(5)]
    for client in clients:
        client.start()
    try:
        assert wait_until(lambda: len(notes(tmp_path)) == 2)
        assert not wait_until(lambda: len(notes(tmp_path)) > 2, 0.5)
    finally:
        (tmp_path / "go").touch()
    for client in clients:
        client.join(20)
    assert [status for status, _ in answers] == [200] * 5
    places = {tuple(map(int, where.split(b"-"))) for _, where in answers}
    pids = {pid for pid, _ in places}
    if name == "thread_per_request":
        assert pids == {running.process.pid}
        assert running.process.pid not in {thread for _, thread in places}
    else:
        assert len(pids) == 5
        assert running.process.pid not in pids
        parent = psutil.Process(running.process.pid)
        assert wait_until(lambda: parent.children() == [])  # none is left as a zombie


def notes(folder: Path) -> list[Path]:
    return [*folder.glob("*.note")]


def test_a_child_that_dies_costs_only_its_own_response(start: Any, tmp_path: Path) -> None:
    (tmp_path / "deadly.py").write_text("import os\ndef kills(): os._exit(1)\n")
    running = start("fork_per_request", f"{tmp_path}/deadly.py:kills", workers=1)
    for _ in range(3):
        with pytest.raises(OSError):
            get(running.url)
    assert get(running.url + "resources/")[0] == 200


def test_children_share_the_limit_of_one_line_a_second(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def fails(): raise ValueError\n")
    running = begin("fork_per_request", f"{tmp_path}/bad.py:fails", "0")
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+/", read_line(running.stderr))
        assert url is not None
        assert [get(url[0])[0] for _ in range(30)] == [500] * 30
        running.terminate()
        lines = running.communicate(timeout=20)[1].splitlines()
    finally:
        running.kill()
    assert 1 <= len(lines) < 15  # 30 without a common limit
    assert all("fails raised ValueError" in line for line in lines)


def test_a_fork_that_fails_is_logged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_limit", log.new_limit())
    with pytest.raises(OSError, match="Resource"), RequestChild().forked():
        raise BlockingIOError(11, "Resource temporarily unavailable")
    line = "no process can be forked for a request: Resource temporarily unavailable\n"
    assert capsys.readouterr().err == line


def test_a_thread_that_cannot_be_started_leaves_its_place_to_others() -> None:
    """Two may run at once, and there is room for the stack of one."""
    limit = f"--as={2 << 30} --stack={1 << 30}"
    running = begin("thread_per_request", "sleep_short_sync", "0", limit=limit, SERVER_WORKERS="2")
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+/", read_line(running.stderr))
        assert url is not None

        def respond() -> int:
            try:
                return get(url[0])[0]
            except OSError:  # its connection is closed
                return 0

        seen = {status for _ in range(4) for status in in_threads(8, respond)}
        assert seen == {0, 200}
        running.terminate()
        stderr = running.communicate(timeout=20)[1]
    finally:
        running.kill()
    assert "can't start new thread" in stderr
    assert running.returncode == 0
