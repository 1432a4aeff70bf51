"""A server says nothing of a client that leaves early: that is the client's own count."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

import catalog
from tests.commands import free_port
from tests.installed import SERVERS


@pytest.mark.parametrize("name", SERVERS)
def test_a_client_that_leaves_early_causes_no_line(name: str) -> None:
    port = free_port()
    words = [sys.executable, "-m", "servers", name, "sleep_short_sync", str(port)]
    running = subprocess.Popen(words, cwd=catalog.ROOT, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    assert "serves" in running.stderr.readline()
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
    running.terminate()
    assert running.communicate(timeout=20)[1] == ""
    assert running.returncode == 0
