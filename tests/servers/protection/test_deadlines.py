"""A client that sends its request byte by byte is cut off at the deadline of the whole request."""

from __future__ import annotations

import socket
import time

import pytest

from tests.http_clients import get
from tests.servers.lifecycle.command_line import begin
from tests.servers.lifecycle.short_timeout import REQUEST
from tests.waiting import read_line

pytestmark = pytest.mark.server

HEADERS = b"GET / HTTP/1.0\r\nX: "
BODY = b"GET / HTTP/1.0\r\nContent-Length: 1000\r\n\r\n"


@pytest.mark.parametrize("first", [HEADERS, BODY], ids=["headers", "body"])
def test_single_bytes_do_not_extend_the_deadline(first: bytes) -> None:
    module = "tests.servers.lifecycle.short_timeout"
    process = begin("sync", "noop_sync", "0", module=module, SHORT_TIMEOUT="REQUEST")
    try:
        port = int(read_line(process.stderr).rpartition(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
            began = time.monotonic()
            slow.sendall(first)
            while not was_closed(slow):
                assert time.monotonic() - began < 6 * REQUEST
                slow.sendall(b"x")
        assert time.monotonic() - began > REQUEST / 2
        assert get(f"http://127.0.0.1:{port}/") == (200, b"ok")
    finally:
        process.kill()
        process.communicate(timeout=20)


def was_closed(client: socket.socket) -> bool:
    """Whether the server has closed a connection; wait for 0.1 s."""
    client.settimeout(0.1)
    try:
        return client.recv(1000) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


def test_a_body_that_is_too_large_is_refused_without_reading_it() -> None:
    process = begin("sync", "noop_sync", "0")
    try:
        port = int(read_line(process.stderr).rpartition(":")[2].partition("/")[0])
        for length, status in (("10000000000", b"413"), ("-1", b"400"), ("ten", b"400")):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                client.sendall(f"GET / HTTP/1.0\r\nContent-Length: {length}\r\n\r\n".encode())
                assert client.recv(12)[-3:] == status
    finally:
        process.kill()
        process.communicate(timeout=20)
