"""The server dask with a cluster of its own on this machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from offload.errors import UsageError
from tests.http_clients import background_requests, get, in_threads
from tests.servers.cluster.conftest import TASKS
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.waiting import is_running, wait_until

pytestmark = [pytest.mark.server, pytest.mark.slow]
Runs = Callable[[], list[str]]


def worker_pids(running: Any) -> list[int]:
    facts = json.loads(get(running.url + "resources/")[1])["facts"]
    found: list[int] = facts["worker_pids"]
    return found


def test_a_lambda_of_a_file_is_a_task(start: Any) -> None:
    assert get(start("dask", f"{TASKS}:double", workers=1).url) == (200, b"42")


def test_equal_calls_are_run_each(start: Any, runs: Runs) -> None:
    running = start("dask", f"{TASKS}:note", workers=2)
    assert in_threads(6, lambda: get(running.url)) == [(200, b"noted")] * 6
    assert len(runs()) == 6
    assert {*map(int, runs())} <= {*worker_pids(running)}


def test_a_worker_that_is_killed_is_replaced_and_its_idempotent_task_retried(start: Any) -> None:
    running = start("dask", "sleep_sync", workers=2)
    before = worker_pids(running)
    with background_requests(running.url, clients=2) as statuses:
        assert wait_until(lambda: len(statuses) >= 4)
        os.kill(before[0], signal.SIGKILL)
        assert wait_until(lambda: len({*worker_pids(running)} - {*before}) == 1)
        after = len(statuses)
        assert wait_until(lambda: len(statuses) >= after + 4)
    assert {*statuses} == {200}
    assert running.process.poll() is None


def test_a_task_that_may_run_once_is_not_repeated_after_a_kill(
    start: Any, runs: Runs, tmp_path: Path
) -> None:
    (tmp_path / "hold").touch()
    running = start("dask", f"{TASKS}:hold", workers=1)

    def kill() -> tuple[int, bytes]:
        assert wait_until(runs)
        os.kill(int(runs()[0]), signal.SIGKILL)
        return 0, b""

    calls = iter([lambda: get(running.url), kill])
    answers = dict(in_threads(2, lambda: next(calls)()))  # noqa: PLW0108 - a different call each
    assert answers[500].count(b"\n") == 1
    assert b"the task may have run, and is not repeated" in answers[500]
    assert len(runs()) == 1
    (tmp_path / "hold").unlink()
    assert wait_until(lambda: get(running.url) == (200, b"held"))
    assert len(runs()) == 2


def test_a_deadly_task_costs_no_worker_that_isolates_it(start: Any, runs: Runs) -> None:
    running = start("dask", f"{TASKS}:dies", workers=2, dask_isolate="yes")
    before = worker_pids(running)
    for _ in range(3):
        status, body = get(running.url)
        assert (status, body.count(b"\n")) == (500, 1)
    assert len(runs()) == 3
    assert worker_pids(running) == before
    assert all(map(is_running, before))


def test_an_isolated_task_runs_in_a_process_of_a_worker(start: Any) -> None:
    running = start("dask", f"{TASKS}:pid", workers=1, dask_isolate="yes")
    pid = int(get(running.url)[1])
    [worker] = worker_pids(running)
    assert worker in [parent.pid for parent in psutil.Process(pid).parents()]


def test_isolation_that_is_off_excludes_a_timeout(start: Any) -> None:
    with pytest.raises(UsageError, match="dask_isolate=no and protect=yes exclude each other"):
        start("dask", "noop_sync", dask_isolate="no", protect="yes")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_server(
    number: int, start: Any, mark: Callable[[], list[psutil.Process]], own_temporary: Path
) -> None:
    running = start("dask", "noop_sync", workers=2)
    assert get(running.url)[0] == 200
    folders = [*own_temporary.iterdir()]
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700]
    running.process.send_signal(number)
    assert wait_until(lambda: running.process.poll() is not None)
    assert wait_until(lambda: not mark())
    assert wait_until(lambda: not [*own_temporary.iterdir()])


def test_another_user_of_the_machine_cannot_submit_tasks(start: Any) -> None:
    running = start("dask", "noop_sync", workers=1)
    server = psutil.Process(running.process.pid)
    listening = {
        connection.laddr.port
        for process in (server, *server.children(recursive=True))
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    } - {running.facts["port"]}
    answers = [answer_to_a_stranger(port) for port in listening]
    assert {*answers} == {"refused", "no page"}
    assert answers.count("refused") == 3  # by the scheduler, a nanny and a worker


def answer_to_a_stranger(port: int) -> str:
    """Return what a client without a certificate gets."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        try:
            encrypted = context.wrap_socket(client)
        except OSError:  # not encrypted
            return "no page" if get(f"http://127.0.0.1:{port}/")[0] == 404 else "a page"
        with encrypted:
            try:
                encrypted.sendall(b"x")
                return f"an answer: {encrypted.recv(1)!r}"
            except OSError:
                return "refused"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("scheduler", "http://a:1", "scheduler='http://a:1' is not an address"),
        ("ssh", "-oProxyCommand=x", "ssh='-oProxyCommand=x' is not a list of hosts"),
        ("ssh", "a+a", "ssh='a+a' has a host twice"),
        ("ssh", "a:99999999", "ssh='a:99999999' is not a list of hosts"),
        ("ssh", "a+b+c+d+e", "workers=4: fewer than 5 hosts"),
        ("dask_isolate", "perhaps", "dask_isolate='perhaps' is neither yes nor no"),
        ("scheduler", "tcp://127.0.0.1:1", "no scheduler at tcp://127.0.0.1:1"),
    ],
)
def test_a_wrong_setting_is_one_line(name: str, value: str, message: str) -> None:
    process = begin("dask", "noop_sync", "0", **{f"SERVER_{name.upper()}": value})
    code, lines = wait_for_end(process)
    assert (code, len(lines)) in [(2, 1), (3, 1)], lines
    assert message in lines[0]


def test_two_places_for_workers_exclude_each_other() -> None:
    settings = {"SERVER_SCHEDULER": "tcp://127.0.0.1:1", "SERVER_SSH": "a"}
    code, lines = wait_for_end(begin("dask", "noop_sync", "0", **settings))
    assert (code, len(lines)) == (2, 1)
    assert "scheduler= and ssh= exclude each other" in lines[0]
