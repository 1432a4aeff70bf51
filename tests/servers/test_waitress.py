"""`waitress`, beyond the contract: it accepts more connections than its default of 100."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Any

import pytest

from tests.http_clients import get

pytestmark = pytest.mark.server


def test_idle_connections_do_not_delay_others(start: Any) -> None:
    running = start("waitress", "noop_sync")
    address = ("127.0.0.1", int(str(running.facts["port"])))
    with ExitStack() as stack:
        for _ in range(150):
            stack.enter_context(socket.create_connection(address, timeout=20))
        assert get(running.url) == (200, b"ok")


def test_a_slow_client_occupies_no_thread(start: Any) -> None:
    """The main thread reads its request, in which the client pauses."""
    running = start("waitress", "noop_sync", workers=1)
    address = ("127.0.0.1", int(str(running.facts["port"])))
    with socket.create_connection(address, timeout=20) as slow:
        slow.sendall(b"GET / HT")
        assert get(running.url) == (200, b"ok")
        slow.sendall(b"TP/1.0\r\n\r\n")
        assert slow.recv(12)[-3:] == b"200"
