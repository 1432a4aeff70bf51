"""A server prints nothing when a client disconnects early."""

from __future__ import annotations

import re
import socket

import pytest

from tests.installed import OWN, one_of_each_kind
from tests.servers.lifecycle.command_line import begin
from tests.waiting import read_line

pytestmark = pytest.mark.server


@pytest.mark.parametrize("name", one_of_each_kind(OWN))
def test_a_client_that_leaves_early_causes_no_line(name: str) -> None:
    running = begin(name, "sleep_short_sync", "0")
    try:
        port = re.search(r"serves .*:(\d+)/", read_line(running.stderr))
        assert port is not None
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", int(port[1])), timeout=10) as client:
                client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        running.terminate()
        assert running.communicate(timeout=20)[1] == ""
        assert running.returncode == 0
    finally:
        running.kill()
