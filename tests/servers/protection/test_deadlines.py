"""Limits of a request: deadlines for whole requests and responses, and sizes that are refused."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from offload.serving.protection import limits
from tests.http_clients import get
from tests.servers.lifecycle.command_line import begin
from tests.servers.lifecycle.short_timeout import REQUEST, RESPONSE
from tests.waiting import read_line, wait_until

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


LARGE = "def large(): return b'x' * 16_000_000\n"
SIZE = 16_000_000


@contextmanager
def serving(name: str, task: str, **variables: str) -> Iterator[int]:
    """Start a server, and yield its port."""
    module = "tests.servers.lifecycle.short_timeout" if variables else "offload.servers"
    process = begin(name, task, "0", module=module, **variables)
    try:
        while " serves " not in (line := read_line(process.stderr)):  # a package may be missing
            assert line
        yield int(line.rpartition(":")[2].partition("/")[0])
    finally:
        process.kill()
        process.communicate(timeout=20)


def receive(client: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection, or resets it."""
    received = bytearray()
    try:
        while part := client.recv(1 << 16):
            received += part
    except ConnectionResetError:
        pass
    return bytes(received)


def status(port: int, request: bytes) -> bytes:
    """Send a request that ends the connection, and return the status of its only response."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(request)
        received = receive(client)
    assert received.count(b"HTTP/1.") == 1, received
    return received.split()[1]


@pytest.mark.parametrize("name", ["sync", "threads", "prefork"])
def test_a_client_that_does_not_read_its_response_is_cut_off(name: str, tmp_path: Path) -> None:
    (tmp_path / "large.py").write_text(LARGE)
    task = f"{tmp_path}/large.py:large"
    with serving(name, task, SHORT_TIMEOUT="RESPONSE") as port, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(20)
        slow.connect(("127.0.0.1", port))
        slow.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert slow.recv(12)[-3:] == b"200"
        began = time.monotonic()
        assert wait_until(lambda: not is_established(port, slow.getsockname()[1]), 6 * RESPONSE)
        assert time.monotonic() - began > RESPONSE / 2
        assert len(receive(slow)) < SIZE
        assert len(get(f"http://127.0.0.1:{port}/")[1]) == SIZE


@pytest.mark.parametrize("line", [b"POST /", b"GET /healthz"])
def test_a_client_that_reads_none_of_many_small_responses_is_cut_off(line: bytes) -> None:
    """They fill the buffers of the kernel after about 20,000."""
    requests = 500 * (line + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    settings = {"SHORT_TIMEOUT": "RESPONSE", "SERVER_HEALTH": "yes"}
    with serving("loop", "noop_sync", **settings) as port, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.settimeout(6 * RESPONSE)
        slow.connect(("127.0.0.1", port))
        with pytest.raises(ConnectionError):
            while True:
                slow.sendall(requests)


BODIES = 40
LARGEST = b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (
    limits.BODY,
    b"x" * limits.BODY,
)


def test_a_connection_that_is_kept_does_not_keep_the_body_of_a_request(start: Any) -> None:
    running = start("threads", "noop_sync")
    process = psutil.Process(running.process.pid)
    address = ("127.0.0.1", int(str(running.facts["port"])))
    sizes = []
    with ExitStack() as stack:
        for _ in range(BODIES):
            client = stack.enter_context(socket.create_connection(address, timeout=20))
            client.sendall(LARGEST)
            assert client.recv(12)[-3:] == b"200"
            sizes.append(process.memory_info().rss)
    assert sizes[-1] - sizes[4] < BODIES * limits.BODY / 2  # 2 copies of each were kept


def is_established(port: int, client: int) -> bool:
    """Whether the server's end of a connection is open."""
    return any(
        each.raddr and (each.laddr.port, each.raddr.port) == (port, client)
        for each in psutil.net_connections("tcp4")
        if each.status == psutil.CONN_ESTABLISHED
    )


@pytest.mark.parametrize("name", ["sync", "loop", "threads"])
def test_more_than_100_headers_are_refused(name: str) -> None:
    with serving(name, "noop_sync") as port:
        start = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        names = [b"X-%d: y\r\n" % number for number in range(1000)]
        assert status(port, start + b"".join(names[:97]) + b"\r\n") == b"200"
        assert status(port, start + b"".join(names) + b"\r\n") == b"431"
        assert status(port, start + b"X: y\r\n" * 1000 + b"\r\n") == b"431"
        assert status(port, start.replace(b"GET", b"POST") + b"X: y\r\n" * 1000 + b"\r\n") == b"431"


START = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
INNER = b"GET /resources/ HTTP/1.1\r\nHost: localhost\r\n\r\n"
UNCLEAR = {
    b"%b%b\r\n0\r\n\r\n%b" % (START, CHUNKED, INNER): b"501",
    b"%b%b\r\n10000\r\n%b" % (START, CHUNKED, b"x" * 65536): b"501",
    b"%bContent-Length: 5\r\n%b\r\n0\r\n\r\n%b" % (START, CHUNKED, INNER): b"400",
    b"%bContent-Length: 0\r\nContent-Length: 47\r\n\r\n%b" % (START, INNER): b"400",
    b"GET /\r\n\r\n": b"400",
    b"GET / HTTP/x\r\n\r\n": b"400",
    b"GET /noop\nsync HTTP/1.1\r\n\r\n": b"400",
}


def test_a_request_whose_end_is_unclear_has_one_response_that_refuses_it() -> None:
    """sync would ignore Transfer-Encoding, and respond to HTTP/0.9 without a status."""
    with serving("sync", "noop_sync") as port:
        for request, expected in UNCLEAR.items():
            assert (request, status(port, request)) == (request, expected)


def test_a_refusal_reaches_a_client_that_still_sends() -> None:
    """Unread data in the server's buffer would reset the connection."""
    with (
        serving("sync", "noop_sync") as port,
        socket.create_connection(("127.0.0.1", port), timeout=20) as client,
    ):
        client.sendall(START + CHUNKED + b"\r\n")
        assert client.recv(12)[-3:] == b"501"
        client.sendall(b"x" * 30_000)
        client.shutdown(socket.SHUT_WR)
        while part := client.recv(1 << 16):  # a reset would be an error
            assert part


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
