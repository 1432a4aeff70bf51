"""The stop of a server: bounded whatever its task does, and without a trace."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from bench import server
from suites import Case
from tests.asking import get, together
from tests.installed import SERVERS
from tests.waiting import wait_until

FAULTS = Path(__file__).parent / "faults.py"


def test_a_task_that_blocks_for_a_minute_is_cut_off(mark: Any) -> None:
    running = [server.start(Case(name, f"{FAULTS}:blocks_in_slices"), {}) for name in SERVERS]
    try:
        for each in running:
            together(1, lambda url=each.url: get(url, timeout=0.3))
            each.process.terminate()
        began = time.monotonic()
        assert wait_until(lambda: all(each.process.poll() is not None for each in running), 14)
        assert time.monotonic() - began > 7
    finally:
        for each in running:
            server.stop(each)
    assert [each.process.returncode for each in running] == [0] * len(SERVERS)
    assert all(each.ending["ended"] for each in running)
    assert wait_until(lambda: not mark(), 3)


@pytest.mark.parametrize("name", ["sync", "loop"])
def test_a_stop_signal_loses_nobody_of_a_long_listen_queue(name: str, start: Any) -> None:
    running = start(name, f"{FAULTS}:slow_once", backlog=1024)
    together(1, lambda: get(running.url, timeout=0.3))
    address = ("127.0.0.1", int(running.facts["port"]))
    clients = [socket.create_connection(address, timeout=10) for _ in range(600)]
    for client in clients:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
    running.process.terminate()
    answers = [answer_to(client) for client in clients]
    assert answers.count(b"200") == 600
    assert wait_until(lambda: running.process.poll() is not None, 12)
    server.stop(running)
    assert (running.process.returncode, running.left) == (0, False)


def answer_to(client: socket.socket) -> bytes:
    with client:
        try:
            return client.recv(12)[-3:]
        except ConnectionResetError:
            return b"reset"
