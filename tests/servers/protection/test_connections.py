"""Bounded connections."""

from __future__ import annotations

import socket

import pytest

from tests.http_clients import get
from tests.servers.protection.conftest import Protected
from tests.waiting import wait_until

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
