"""Servers with several processes of several threads: `threads` with processes= and others.

They share one port, finish what they accepted, end together, and count together.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from offload.engine import server
from offload.engine.processes import ResponseCounts
from offload.studies.scale import sweep
from offload.suites import Case, _case
from tests import ROOT
from tests.commands import fab_here
from tests.http_clients import background_requests, get
from tests.installed import require
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.servers.protection.conftest import counts
from tests.servers.protection.test_health import HAS_METRICS
from tests.waiting import is_running, read_line, wait_until

pytestmark = pytest.mark.server
of_linux = pytest.mark.skipif(sys.platform != "linux", reason="the memory of counts is Linux's")

# Tells its process and thread, and waits until `all` requests are there at once.
MEETS = """
import os, threading, time
from pathlib import Path
HERE = Path(__file__).parent
def meets():
    me = f"{os.getpid()}-{threading.get_ident()}"
    (HERE / f"here-{me}").touch()
    until = time.monotonic() + 20
    while len([*HERE.glob("here-*")]) < 4 and time.monotonic() < until:
        time.sleep(0.01)
    return me
"""
SETTINGS = [{"reuse_port": "no"}, {"reuse_port": "yes"}]


def child_pids(running: server.Server | subprocess.Popen[str]) -> set[int]:
    pid = running.process.pid if isinstance(running, server.Server) else running.pid
    return {child.pid for child in psutil.Process(pid).children()}


def test_the_tasks_run_in_the_threads_of_all_processes_at_once(start: Any, tmp_path: Path) -> None:
    """Four requests meet only if two processes run two each."""
    (tmp_path / "meeting.py").write_text(MEETS)
    sizes = {"processes": 2, "workers": 2, "reuse_port": "yes"}  # one process could accept all
    running = start("threads", f"{tmp_path}/meeting.py:meets", **sizes)
    with ThreadPoolExecutor(24) as clients:  # so many that each process gets at least two
        found = [body.decode() for _, body in clients.map(get, [running.url] * 24)]
    pids = {int(each.partition("-")[0]) for each in found}
    assert pids == child_pids(running) == {*running.facts["worker_pids"]}
    assert len({*found}) == 4
    assert (running.facts["workers"], running.facts["processes"]) == (2, 2)


def test_a_task_runs_in_the_tokens_of_uvicorns_workers(start: Any, tmp_path: Path) -> None:
    """Four requests meet in one process only if it has four threads."""
    require("starlette_threads")
    (tmp_path / "meeting.py").write_text(MEETS)
    running = start("uvicorn_workers", f"{tmp_path}/meeting.py:meets", processes=1, workers=4)
    with ThreadPoolExecutor(4) as clients:
        found = [body.decode() for _, body in clients.map(get, [running.url] * 4)]
    assert len({*found}) == 4
    assert {each.partition("-")[0] for each in found} == {str(running.facts["worker_pids"][0])}
    assert (running.facts["workers"], running.facts["processes"]) == (4, 1)


def test_without_tokens_a_task_runs_on_the_loop_of_uvicorns_workers(start: Any) -> None:
    require("uvicorn_workers")
    running = start("uvicorn_workers", "noop_sync", processes=2)
    assert "workers" not in running.facts
    case = Case("uvicorn_workers", "noop_sync", settings={"processes": 2})
    assert case.name == "uvicorn_workersx2/noop_sync"


@pytest.mark.parametrize("text", ["uvicorn_workersx2x8/noop_sync", "3x2x8/noop_sync"])
def test_a_case_has_both_sizes(text: str) -> None:
    found = _case.parse_case(text)
    assert (found.settings, found.name) == ({"processes": 2, "workers": 8}, text)
    assert _case.find_case(text, [found], "cases") == 0
    assert f"{found.command}".endswith("noop_sync,processes=2,workers=8")


def test_a_grid_of_uvicorns_workers_varies_processes_and_tokens() -> None:
    one = _case.parse_case("uvicorn_workers/noop_sync")
    found = sweep.grid_cases(one, [1, 2], [8, 16])
    assert [each.settings["workers"] for each in found] == [8, 16, 8, 16]
    assert sweep.varied(found) == sweep.SIZES


def test_one_process_is_the_server_itself(start: Any) -> None:
    running = start("threads", "noop_sync", processes=1, workers=2)
    assert child_pids(running) == set()
    assert running.facts["worker_pids"] == [running.process.pid]
    assert running.facts["external_workers"] is None


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_process_that_is_killed_is_replaced(settings: dict[str, str], start: Any) -> None:
    running = start("threads", "noop_sync", processes=2, workers=2, **settings)
    before = child_pids(running)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: len(child_pids(running) - before) == 2)
    assert {get(running.url) for _ in range(20)} == {(200, b"ok")}


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
@pytest.mark.parametrize("name", ["threads", "starlette_threads", "gunicorn_gthread"])
def test_the_processes_end_with_a_parent_that_is_killed(name: str, own_temporary: Path) -> None:
    process = begin(name, "sleep_sync", "0", SERVER_PROCESSES="2", SERVER_WORKERS="2")
    try:
        read_line(process.stderr)
        pids = {each.pid for each in psutil.Process(process.pid).children(recursive=True)}
        assert len(pids) >= 2
        process.kill()
        assert wait_until(lambda: not any(map(is_running, pids)))
    finally:
        process.kill()
        process.communicate(timeout=20)


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_stop_under_load_loses_no_request(settings: dict[str, str], start: Any) -> None:
    running = start("threads", "sleep_short_sync", processes=2, workers=4, **settings)
    with background_requests(running.url) as statuses:
        assert wait_until(lambda: len(statuses) > 40)
        server.stop(running)
    assert {each for each in statuses if not isinstance(each, ConnectionRefusedError)} == {200}
    assert (running.process.returncode, running.left) == (0, False)


def test_a_task_that_cannot_be_imported_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import os\n1 / 0\ndef answers(): return 'ok'\n")
    words = ("threads", f"{tmp_path}/broken.py:answers", "0")
    code, lines = wait_for_end(begin(*words, SERVER_PROCESSES="2"))
    assert (code, len(lines)) == (2, 1)
    assert "ZeroDivisionError" in lines[0]


# No thread can be started in a child.
NO_THREADS = """
import os, sys, threading
from offload.serving import main
def limited(self):
    raise RuntimeError("can't start new thread")
os.register_at_fork(after_in_child=lambda: setattr(threading.Thread, "start", limited))
sys.exit(main.main(["threads", "noop_sync", "0"]))
"""


def test_threads_that_cannot_be_started_are_one_line_of_the_server() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", NO_THREADS],
        cwd=ROOT,
        env={**os.environ, "SERVER_PROCESSES": "3"},
        stderr=subprocess.PIPE,
        text=True,
    )
    code, lines = wait_for_end(process)
    assert code in (3, 4)
    assert (len(lines), "can't start new thread" in lines[0]) == (1, True)


@pytest.mark.parametrize("name", ["threads", "prefork"])
def test_a_port_in_use_is_one_line_also_if_it_could_be_shared(name: str, start: Any) -> None:
    """Two servers of one user could share it by SO_REUSEPORT, unnoticed."""
    used = start(name, "noop_sync", processes=2, reuse_port="yes").facts["port"]
    settings = {"SERVER_PROCESSES": "2", "SERVER_REUSE_PORT": "yes"}
    code, lines = wait_for_end(begin(name, "noop_sync", str(used), **settings))
    assert (code, len(lines)) == (3, 1)
    assert f"port {used}: Address already in use" in lines[0]


OF_OTHERS = ["gunicorn_gthread", "granian_wsgi", "starlette_threads", "uvicorn_workers"]


@of_linux
@pytest.mark.parametrize("name", ["threads", "prefork", *OF_OTHERS])
def test_each_process_counts_its_requests_and_the_sum_is_reported(name: str, start: Any) -> None:
    running = start(name, "noop_sync", processes=2)
    assert {get(running.url)[0] for _ in range(60)} == {200}
    shares = ResponseCounts(running.facts["process_counts"]).responses()
    assert (len(shares), sum(shares)) == (2, 60)
    report = json.loads(get(running.url + "resources/")[1])
    assert report["responses"] == {"completed": 60, "failed": 0}
    server.stop(running)
    assert running.ending["completed"] == 60


@of_linux
def test_the_counts_of_a_process_that_was_replaced_are_kept(start: Any) -> None:
    running = start("threads", "noop_sync", processes=2, workers=2)
    for _ in range(20):
        get(running.url)
    before = child_pids(running)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: len(child_pids(running) - before) == 2)
    assert get(running.url)[0] == 200
    shares = ResponseCounts(running.facts["process_counts"]).responses()
    assert (len(shares), sum(shares)) == (2, 21)


@of_linux
@pytest.mark.skipif(not HAS_METRICS, reason="prometheus-client is not installed: make test-all")
@pytest.mark.parametrize("name", ["threads", "prefork"])
def test_the_metrics_are_sums_over_the_processes(name: str, start: Any) -> None:
    running = start(name, "noop_sync", processes=3, health="yes", protect="yes")
    assert {get(running.url)[0] for _ in range(60)} == {200}
    shares = ResponseCounts(running.facts["process_counts"]).responses()
    assert sum(share > 0 for share in shares) > 1  # else a sum would prove nothing
    for _ in range(3):  # whichever process responds
        lines = get(running.url + "metrics")[1].decode().splitlines()
        assert 'offload_responses_total{result="completed"} 60.0' in lines
        assert "offload_in_flight 0.0" in lines


@of_linux
def test_the_protection_bounds_each_process_and_reports_all(start: Any, tmp_path: Path) -> None:
    """A process of one thread has at most one task that hangs; others are refused at once."""
    hanging = tmp_path / "hanging.py"
    hanging.write_text(
        "import time\nfrom pathlib import Path\nHERE = Path(__file__).parent\n"
        "def hang():\n    while not (HERE / 'go').exists(): time.sleep(0.02)\n    return 'done'\n"
    )
    limits = {"protect": "yes", "task_timeout": 0.3, "max_wait": 0.1}
    running = start("threads", f"{hanging}:hang", processes=2, workers=1, **limits)
    statuses = [get(running.url)[0] for _ in range(12)]
    assert (statuses.count(504), statuses.count(503)) == (2, 10)
    found = counts(running)
    assert (found["timed_out"], found["refused"], found["stuck"]) == (2, 10, 2)
    (tmp_path / "go").touch()
    assert wait_until(lambda: counts(running)["stuck"] == 0)
    assert get(running.url) == (200, b"done")


def test_connections_above_the_maximum_of_each_process_are_refused(start: Any) -> None:
    running = start("threads", "noop_sync", processes=2, protect="yes", max_connections=1)
    port = int(running.facts["port"])
    held = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(8)]
    try:
        for each in held:
            each.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answers = [each.recv(64)[:12] for each in held]
    finally:
        for each in held:
            each.close()
    assert 1 <= answers.count(b"HTTP/1.1 200") <= 2
    assert answers.count(b"HTTP/1.1 503") == 8 - answers.count(b"HTTP/1.1 200")


BAD = {
    "threads,noop_sync,processes=0": "processes='0' is not a whole number from 1 to 64",
    "threads,noop_sync,processes=65": "processes='65' is not a whole number from 1 to 64",
    "threads,noop_sync,processes=64,workers=256": "64 processes of 256 workers are 16384",
    "threads,noop_sync,processes=2,reuse_port=maybe": "no 'maybe' in reuse_port=",
    "waitress,noop_sync,processes=2": "waitress has one process that accepts connections",
    "4,noop_sync,processes=2": "processes has one process that accepts connections",
}


@pytest.mark.parametrize(("words", "message"), BAD.items())
def test_a_wrong_size_is_one_line(words: str, message: str) -> None:
    done = fab_here(f"run_server:{words}")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert message in done.stderr


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"SERVER_PROCESSES": "0"}, "processes='0' is not a whole number from 1 to 64"),
        ({"SERVER_PROCESSES": "64", "SERVER_WORKERS": "256"}, "64 processes of 256 workers"),
    ],
)
def test_a_wrong_size_in_the_environment_is_one_line(
    settings: dict[str, str], message: str
) -> None:
    code, lines = wait_for_end(begin("threads", "noop_sync", "0", **settings))
    assert (code, len(lines)) == (2, 1)
    assert re.search(re.escape(message), lines[0])
