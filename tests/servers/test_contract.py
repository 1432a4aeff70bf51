"""The contract of every server: it runs every task, answers alike, and ends without a trace."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

import catalog
import upstream
from bench import server
from errors import Mendable, StartError, UsageError
from suites import Case
from tests.asking import get, together
from tests.installed import FOREIGN, POOLS, SERVERS, param
from tests.waiting import wait_until

PROCESSES = {"processes", "pipes", "pebble"} & {*SERVERS}  # of workers that are processes
EVERY = [*SERVERS, *map(param, FOREIGN)]
LOCAL_TASKS = [n for n, entry in catalog.tasks().items() if "internet" not in entry.needs]
FAULTS = Path(__file__).parent / "faults.py"
AT_ONCE = 4  # servers that are started together
Start = Callable[..., server.Server]


@pytest.mark.parametrize("name", SERVERS)
def test_every_task_answers_the_same_on_every_server(name: str) -> None:
    with upstream.hold() as held, ThreadPoolExecutor(AT_ONCE) as threads:
        added = held.upstream.environment()
        for task, status, body in threads.map(lambda task: answer(name, task, added), LOCAL_TASKS):
            assert (task, status) == (task, 200)
            assert BODIES.setdefault(task, body) == body


def answer(name: str, task: str, added: Mapping[str, str]) -> tuple[str, int, bytes]:
    """Start a server with a task, ask it once, and stop it."""
    running = server.start(Case(name, task), added)
    try:
        return task, *get(running.url)
    finally:
        server.stop(running)


BODIES: dict[str, bytes] = {}


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize(
    "fault", ["raises", "exits", "recurses", "unpicklable", "interrupts", "odd_error", "a_number"]
)
def test_a_failing_task_is_a_500_and_the_server_lives(name: str, fault: str, start: Start) -> None:
    running = start(name, f"{FAULTS}:{fault}")
    for _ in range(2):
        status, body = get(running.url)
        assert status == 500
        assert fault in body.decode()
        assert body.count(b"\n") == 1
    assert get(running.url + "resources/")[0] == 200


@pytest.mark.parametrize("name", SERVERS)
def test_resources_tell_memory_processes_and_facts(name: str, start: Start) -> None:
    running = start(name, "noop_sync")
    status, body = get(running.url + "resources/")
    told = json.loads(body)
    assert (status, told["facts"]["server"], told["facts"]["task"]) == (200, name, "noop_sync")
    assert told["facts"]["pid"] == running.process.pid == told["processes"][0]["pid"]
    assert told["memory_pss_mib"] > 5


def test_resources_bear_a_process_of_any_name(start: Start) -> None:
    running = start("loop", "noop_sync")
    named = (
        "import ctypes; ctypes.CDLL(None).prctl(15, b'\\xff) (\\n'); print(1, flush=True); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", named], **pipes) as other:  # type: ignore[call-overload]
        assert other.stdout.readline() == b"1\n"
        status = get(running.url + "resources/")[0]
        other.communicate(b"\n", timeout=5)
    assert status == 200


@pytest.mark.parametrize("name", SERVERS)
def test_only_its_own_paths_are_served(name: str, start: Start) -> None:
    running = start(name, "noop_sync")
    assert get(running.url + "etc/passwd")[0] == 404
    assert get(running.url + "?a=b") == (200, b"ok")


@pytest.mark.parametrize("name", EVERY)
def test_it_listens_on_loopback_only(name: str, start: Start) -> None:
    root = psutil.Process(start(name, "noop_sync").process.pid)
    found = [c for p in (root, *root.children(True)) for c in p.net_connections("tcp")]
    assert {c.laddr.ip for c in found if c.status == psutil.CONN_LISTEN} == {"127.0.0.1"}


# Seconds until both of two simultaneous requests are answered, in tasks of 0.28 s.
BOTH = {
    ("sync", "sleep_sync"): 2,
    ("sync", "sleep_async"): 2,
    ("sync", "sleep_async_split"): 2,
    ("loop", "sleep_sync"): 2,
    ("loop", "sleep_async"): 2,
    ("loop", "sleep_async_split"): 1,
    **{
        (s, f"sleep_{t}"): 1
        for s in ("threads", "processes", "pipes")
        for t in ("sync", "async", "async_split")
    },
}


@pytest.mark.parametrize(
    ("case", "tasks"), BOTH.items(), ids=lambda v: "/".join(v) if isinstance(v, tuple) else str(v)
)
def test_two_waiting_requests_are_served_together_or_in_turn(
    case: tuple[str, str], tasks: int, start: Start
) -> None:
    running = start(*case)
    get(running.url)
    began = time.monotonic()
    assert [status for status, _ in together(2, lambda: get(running.url))] == [200, 200]
    assert 0.9 * tasks * 0.28 <= time.monotonic() - began < (tasks + 0.9) * 0.28


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_loses_no_request(name: str, number: int, start: Start) -> None:
    running = start(name, "sleep_sync")
    stop = threading.Timer(0.15, running.process.send_signal, (number,))
    stop.start()
    assert together(5, lambda: get(running.url)[0]) == [200] * 5
    assert wait_until(lambda: running.process.poll() is not None, 12)
    server.stop(running)
    assert (running.process.returncode, running.left) == (0, False)


@pytest.mark.parametrize("name", SERVERS)
def test_a_second_signal_ends_it_at_once(name: str, start: Start, mark: Any) -> None:
    running = start(name, f"{FAULTS}:slow")
    together(1, lambda: get(running.url, timeout=0.3))
    running.process.terminate()
    time.sleep(0.6)  # beyond what counts as the same signal
    running.process.terminate()
    assert wait_until(lambda: not mark(), 3)


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("after_s", [0.05, 0.15, 0.3])
def test_a_signal_while_starting_leaves_nothing(
    name: str, number: int, after_s: float, mark: Any
) -> None:
    words, environment = server.command(Case(name, "xml_lxml_sync"), 0)
    process = subprocess.Popen(
        words, cwd=catalog.ROOT, env={**os.environ, **environment}, stderr=subprocess.PIPE
    )
    time.sleep(after_s)
    process.send_signal(number)
    _, said = process.communicate(timeout=15)
    assert b"Traceback" not in said or number == signal.SIGKILL
    assert wait_until(lambda: not mark(), 3)


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork", None])
def test_workers_end_with_a_killed_server(method: str | None, start: Start, mark: Any) -> None:
    settings = {} if method is None else {"start_method": method}
    running = start("processes" if method else "pipes", f"{FAULTS}:slow", **settings)
    port = int(str(running.facts["port"]))
    together(1, lambda: get(running.url, timeout=0.3))
    assert len(mark()) > 4
    running.process.kill()
    assert wait_until(lambda: not mark(), 3)
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("workers", [1, 3])
def test_all_workers_are_begun_before_it_listens(name: str, workers: int, start: Start) -> None:
    running = start(name, "noop_sync", workers=workers)
    assert running.facts["workers"] == workers
    pids = running.facts["worker_pids"]
    assert len(pids) == (workers if name in PROCESSES else 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(PROCESSES))
def test_workers_hold_no_socket_of_the_server(name: str, start: Start) -> None:
    running = start(name, "noop_sync")
    for pid in running.facts["worker_pids"]:  # type: ignore[attr-defined]
        assert psutil.Process(pid).net_connections("inet") == []


@pytest.mark.parametrize("name", EVERY)
def test_a_module_that_is_not_there_is_a_usage_error(name: str, start: Start) -> None:
    with pytest.raises(UsageError, match="no_such_module"):
        start(name, "no_such_module:f")


@pytest.mark.parametrize("name", SERVERS)
def test_a_module_that_raises_when_imported_is_named(
    name: str, tmp_path: Path, start: Start
) -> None:
    (tmp_path / "bad.py").write_text("\n1/0\ndef f(): ...\n")
    with pytest.raises(Mendable, match=r"ZeroDivisionError.*bad\.py:2"):
        start(name, f"{tmp_path}/bad.py:f")


def test_a_setting_it_does_not_take_is_refused(start: Start) -> None:
    with pytest.raises(UsageError, match="sync takes no workers=: it takes backlog="):
        start("sync", "noop_sync", workers=3)


@pytest.mark.parametrize("name", EVERY)
def test_a_busy_port_is_one_line(name: str) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        words, _ = server.command(Case(name, "noop_sync"), busy.getsockname()[1])
        said = subprocess.run(words, cwd=catalog.ROOT, capture_output=True, text=True, timeout=20)
    assert (said.returncode, said.stderr.count("\n")) == (3, 1)
    assert "Address already in use" in said.stderr


def test_a_server_that_dies_while_starting_is_a_start_error(tmp_path: Path, start: Start) -> None:
    (tmp_path / "dies.py").write_text("import os\nos._exit(7)\ndef f(): ...\n")
    with pytest.raises(StartError):
        start("threads", f"{tmp_path}/dies.py:f")


def test_a_path_is_where_a_users_task_imports_from(tmp_path: Path, start: Start) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "pricing.py").write_text("import money\ndef quote(): return money.TEXT\n")
    (tmp_path / "money.py").write_text("TEXT = 'ten'\n")
    for name in SERVERS:
        running = start(name, "shop.pricing:quote", path=str(tmp_path))
        assert get(running.url) == (200, b"ten")


def test_the_command_says_how_it_is_used() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "servers", "threads"],
        cwd=catalog.ROOT,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (said.returncode, said.stderr.count("\n")) == (2, 1)
