"""The contract of every server: it runs every task, with the same responses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from offload import tasks
from offload.engine import server
from offload.registry import catalog
from offload.serving.metrics import own_gil
from tests.http_clients import get, in_threads
from tests.installed import KINDS, OWN, one_of_each_kind
from tests.servers.any_task import BEGINS, ENDS
from tests.servers.chosen import FAULTS, Chosen
from tests.waiting import read_line

pytestmark = pytest.mark.server

PROCESSES = ("processes", "pipes", "pebble")  # of workers that are processes
MESSAGES = {
    "raises": r"raised ValueError: two\nlines\x1b[31m",
    "exits": "raised SystemExit: 3",
    "recurses": "raised RecursionError: maximum recursion depth exceeded",
    "unpicklable": "returned function: a task returns bytes, str, None or what json.dumps() takes",
    "interrupts": "raised KeyboardInterrupt",
    "odd_error": "raised OddError: 1 2",
    "a_set": "returned set: a task returns bytes, str, None or what json.dumps() takes",
}
TRIES = 10  # for two requests to meet on a busy machine
of_our_own = pytest.mark.parametrize("noop_server", one_of_each_kind(OWN), indirect=True)


def test_a_task_of_each_file_answers_the_same_on_every_server(
    any_server: Chosen, bodies: dict[str, bytes]
) -> None:
    files = {catalog.find_task(task).path: task for task in bodies}
    check_answers(any_server, {task: bodies[task] for task in files.values()})


@pytest.mark.slow
def test_every_task_answers_the_same_on_every_server(
    any_server: Chosen, bodies: dict[str, bytes]
) -> None:
    check_answers(any_server, bodies)


def check_answers(server: Chosen, bodies: dict[str, bytes]) -> None:
    answers = {task: server.answer(task) for task in bodies}
    expected = {task: (200, body) for task, body in bodies.items()}
    assert [task for task in bodies if answers[task] != expected[task]] == []


def test_bodies_that_are_compared_are_of_the_tasks(bodies: dict[str, bytes]) -> None:
    assert bodies["noop_sync"] == b"ok"
    assert bodies["sleep_async_split"] == tasks.call("sleep_short_sync")
    assert len(bodies["network_https_sync"]) == 5120
    assert all(bodies.values())


def test_a_failing_task_is_a_500_and_the_server_lives(any_server: Chosen) -> None:
    pid = any_server.running.process.pid
    for fault, message in MESSAGES.items():
        url = any_server.choose(f"{FAULTS}:{fault}").url
        for _ in range(2):
            status, body = get(url)
            assert (fault, status, body.count(b"\n")) == (fault, 500, 1)
            assert f"any_task {message}" in body.decode()
        assert get(url + "resources/")[0] == 200
    assert any_server.running.process.pid == pid


@pytest.mark.parametrize("any_server", KINDS, indirect=True)
def test_an_exit_in_a_task_of_asyncio_is_a_500_and_the_server_lives(any_server: Chosen) -> None:
    """asyncio raises it out of the event loop, too."""
    pid = any_server.running.process.pid
    for fault in ("exits", "interrupts"):
        url = any_server.choose(f"{FAULTS}:{fault}_in_an_asyncio_task").url
        for _ in range(2):
            status, body = get(url)
            assert (fault, status, body.count(b"\n")) == (fault, 500, 1)
            assert f"any_task {MESSAGES[fault]}" in body.decode()
        assert get(url + "resources/")[0] == 200
    assert any_server.running.process.pid == pid


@pytest.mark.parametrize("any_server", KINDS, indirect=True)
def test_a_fork_of_a_task_does_not_serve(any_server: Chosen) -> None:
    """sys.exit() is caught, so the fork would respond to the same client, and accept others."""
    assert any_server.answer(f"{FAULTS}:exits_in_a_fork") == (200, b"exit code 3")


def test_resources_report_memory_processes_and_facts(noop_server: server.Server) -> None:
    status, body = get(noop_server.url + "resources/")
    report = json.loads(body)
    name = noop_server.facts["server"]
    assert (status, report["facts"]["server"], report["facts"]["task"]) == (200, name, "noop_sync")
    assert report["memory_pss_mib"] > 5


@of_our_own
def test_the_first_process_of_the_resources_is_the_server(noop_server: server.Server) -> None:
    report = json.loads(get(noop_server.url + "resources/")[1])
    assert report["facts"]["pid"] == noop_server.process.pid == report["processes"][0]["pid"]


FORKED = ("prefork", "gunicorn_sync")


@pytest.mark.parametrize("noop_server", one_of_each_kind([*FORKED]), indirect=True)
def test_a_forked_process_lists_those_of_the_server(noop_server: server.Server) -> None:
    report = json.loads(get(noop_server.url + "resources/")[1])
    pids = [process["pid"] for process in report["processes"]]
    assert pids[0] == noop_server.process.pid
    assert len(pids) > 1


@pytest.mark.parametrize("noop_server", ["loop"], indirect=True)
def test_resources_list_a_process_of_any_name(noop_server: server.Server) -> None:
    named = (
        "import ctypes; ctypes.CDLL(None).prctl(15, b'\\xff) (\\n'); print(1, flush=True); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", named], **pipes) as other:  # type: ignore[call-overload]
        assert read_line(other.stdout) == "1\n"
        status = get(noop_server.url + "resources/")[0]
        other.communicate(b"\n", timeout=20)
    assert status == 200


def test_only_its_own_paths_are_served(noop_server: server.Server) -> None:
    assert get(noop_server.url + "etc/passwd")[0] == 404
    assert get(noop_server.url + "?a=b") == (200, b"ok")


@pytest.mark.parametrize(
    "name", ["threads", "uvicorn_h11", "gunicorn_sync", "granian_rsgi", "starlette_threads"]
)
def test_an_encoded_question_mark_begins_no_query(name: str, start: Any) -> None:
    """ASGI and WSGI decode the path."""
    url = start(name, "noop_sync").url
    assert [get(f"{url}{path}")[0] for path in ("?a=b", "%3Fa=b")] == [200, 404]


def test_it_listens_on_loopback_only(noop_server: server.Server) -> None:
    root = psutil.Process(noop_server.process.pid)
    found = []
    for process in (root, *root.children(True)):
        found += process.net_connections("tcp")
    assert {c.laddr.ip for c in found if c.status == psutil.CONN_LISTEN} == {"127.0.0.1"}


@pytest.mark.parametrize("noop_server", PROCESSES, indirect=True)
def test_workers_hold_no_socket_of_the_server(noop_server: server.Server) -> None:
    assert len(noop_server.facts["worker_pids"]) == 4  # type: ignore[arg-type]
    for pid in noop_server.facts["worker_pids"]:  # type: ignore[attr-defined]
        assert psutil.Process(pid).net_connections("inet") == []


SLEEPS = ("sleep_sync", "sleep_async", "sleep_async_split")
TOGETHER = {
    ("loop", "sleep_async_split"),
    *((name, task) for name in ("threads", "processes", "pipes") for task in SLEEPS),
}


@pytest.mark.parametrize(
    "any_server", ["sync", "loop", "threads", "processes", "pipes"], indirect=True
)
@pytest.mark.parametrize("task", SLEEPS)
def test_two_waiting_requests_are_served_together_or_sequentially(
    any_server: Chosen, task: str
) -> None:
    is_together = (any_server.name, task) in TOGETHER
    for _ in range(TRIES if is_together else 2):
        running = any_server.choose(task)
        assert [status for status, _ in in_threads(2, lambda: get(running.url))] == [200, 200]  # noqa: B023
        events = any_server.events()
        assert sorted(events) == [BEGINS, BEGINS, ENDS, ENDS]
        if events[:2] == [BEGINS, BEGINS]:
            break
    assert (events[:2] == [BEGINS, BEGINS]) == is_together


def test_a_path_is_where_a_users_task_imports_from(any_server: Chosen) -> None:
    (any_server.folder / "shop").mkdir(exist_ok=True)
    quote = "import money\ndef quote(): return money.TEXT\n"
    (any_server.folder / "shop" / "pricing.py").write_text(quote)
    (any_server.folder / "money.py").write_text("TEXT = 'ten'\n")
    assert any_server.answer("shop.pricing:quote") == (200, b"ten")


@of_our_own
def test_the_facts_recognise_the_process_and_its_interpreter(noop_server: server.Server) -> None:
    stat = Path(f"/proc/{noop_server.process.pid}/stat").read_text()
    keys = ("started", "executable", "gil_enabled")
    assert {key: noop_server.facts[key] for key in keys} == {
        "started": int(stat.rpartition(")")[2].split()[19]),
        "executable": sys.executable,
        "gil_enabled": own_gil.enabled(),
    }
    path = Path(str(noop_server.facts["path"]))
    assert (path.is_absolute(), path.is_dir()) == (True, True)


@of_our_own
def test_a_server_reports_its_gil_address(noop_server: server.Server) -> None:
    word = noop_server.facts["gil_address"]
    assert word["pid"] == noop_server.process.pid  # type: ignore[index]


@pytest.mark.parametrize("noop_server", ["threads"], indirect=True)
def test_worker_threads_have_no_gil_of_their_own(noop_server: server.Server) -> None:
    assert "worker_gil_addresses" not in noop_server.facts
