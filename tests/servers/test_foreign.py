"""Servers whose requests another's processes answer: the same answers, and no trace left."""

from __future__ import annotations

import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tasks
import upstream
from bench import server
from suites import Case
from tests.asking import get, together
from tests.installed import FOREIGN, param
from tests.waiting import wait_until

FAULTS = Path(__file__).parent / "faults.py"
every = pytest.mark.parametrize("name", [param(name) for name in FOREIGN])
PLAIN = ("noop_sync", "sleep_async_split", "simplehash_sync", "xml_lxml_sync")


@every
def test_a_task_answers_what_it_returns(name: str, start: Any) -> None:
    for task in PLAIN:
        assert get(start(name, task).url) == (200, tasks.call(task))


@every
def test_a_task_that_fetches_finds_the_upstream(name: str) -> None:
    with upstream.hold() as held:
        running = server.start(Case(name, "network_https_sync"), held.upstream.environment())
        try:
            status, body = get(running.url)
        finally:
            server.stop(running)
    assert (status, len(body)) == (200, 5120)


@every
def test_a_failing_task_is_a_500_of_one_line_and_the_server_lives(name: str, start: Any) -> None:
    running = start(name, f"{FAULTS}:raises")
    for _ in range(2):
        status, body = get(running.url)
        assert (status, body.count(b"\n")) == (500, 1)
    assert get(running.url + "etc/passwd")[0] == 404
    assert get(running.url + "resources/")[0] == 200


@every
def test_sigterm_loses_no_request_that_is_worked_on(name: str, start: Any) -> None:
    running = start(name, "sleep_async_split")  # Ctrl-C does in gunicorn, as it documents
    stop = threading.Timer(0.1, running.process.send_signal, (signal.SIGTERM,))
    stop.start()
    assert together(2, lambda: get(running.url)[0]) == [200] * 2
    assert wait_until(lambda: running.process.poll() is not None, 12)
    server.stop(running)
    assert (running.process.returncode, running.left) == (0, False)
    assert "completed" not in running.ending


@every
def test_kill_9_leaves_no_process(name: str, start: Any, mark: Any) -> None:
    running = start(name, f"{FAULTS}:slow")
    port = int(str(running.facts["port"]))
    together(1, lambda: get(running.url, timeout=0.3))
    assert mark()
    running.process.kill()
    assert wait_until(lambda: not mark(), 3)
    assert wait_until(lambda: is_free(port), 3)


def is_free(port: int) -> bool:
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            again.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@pytest.mark.parametrize("name", [param("gunicorn_sync"), param("gunicorn_gthread")])
def test_workers_serve_as_many_waiting_requests_at_once(name: str, start: Any) -> None:
    running = start(name, "sleep_sync", workers=3)
    get(running.url)
    began = time.monotonic()
    assert [status for status, _ in together(3, lambda: get(running.url))] == [200] * 3
    assert 0.25 <= time.monotonic() - began < 3 * 0.28
