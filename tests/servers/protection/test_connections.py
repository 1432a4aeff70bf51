"""Bounded connections, by a setting and by the limit of open files."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import psutil
import pytest

from tests.http_clients import get
from tests.servers.lifecycle.command_line import begin
from tests.servers.protection.conftest import Protected
from tests.waiting import read_line, wait_until

pytestmark = pytest.mark.server


def test_a_connection_above_the_maximum_is_refused(protected: Protected) -> None:
    running = protected("threads", "nap", max_connections=3)
    address = ("127.0.0.1", int(str(running.facts["port"])))
    idle = [socket.create_connection(address, timeout=20) for _ in range(3)]
    with socket.create_connection(address, timeout=20) as refused:
        refused.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b"".join(iter(lambda: refused.recv(4096), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nRetry-After: 1\r\n" in head
    assert body == b"too many connections\n"
    for client in idle:
        client.close()
    assert wait_until(lambda: get(running.url)[0] == 200)


FILES = 64  # open files of the server, of which it needs some itself
WINDOW, BUSY = 1.5, 0.5  # s of a window, and of CPU time that a server without work does not use


@pytest.mark.parametrize("name", ["loop", "threads"])
def test_connections_above_the_limit_of_open_files_wait_without_using_a_cpu(name: str) -> None:
    process = begin(name, "noop_sync", "0", limit=f"--nofile={FILES}")
    try:
        port = int(read_line(process.stderr).rpartition(":")[2].partition("/")[0])
        server = psutil.Process(process.pid)
        with ExitStack() as stack:
            for _ in range(FILES + 20):
                client = socket.create_connection(("127.0.0.1", port), timeout=20)
                stack.enter_context(client)
            assert wait_until(lambda: server.num_fds() == FILES)
            before = cpu_s(server)
            assert not wait_until(lambda: cpu_s(server) - before > BUSY, WINDOW)
        assert get(f"http://127.0.0.1:{port}/") == (200, b"ok")
    finally:
        process.kill()
        stderr = process.communicate(timeout=20)[1]
    assert "no connection can be accepted: Too many open files" in stderr


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU time of a process in seconds."""
    times = process.cpu_times()
    return times.user + times.system
