"""Malformed requests: each is refused with a status line, and its connection is closed."""

from __future__ import annotations

import io
import logging
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from offload.engine import server
from offload.serving.applications import request_head
from offload.serving.lifecycle import log
from tests.servers.lifecycle.command_line import begin, wait_for_end
from tests.waiting import read_line

pytestmark = pytest.mark.server
SLOW = ("threads", "processes", "pipes", "pebble")
SERVERS = [
    "sync",
    "loop",
    "prefork",
    *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW),
]
of_our_own = pytest.mark.parametrize("noop_server", SERVERS, indirect=True)
REFUSED = re.compile(rb"HTTP/1\.[01] 400 |$")  # or closed

HOST = b"Host: 127.0.0.1\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST
NEXT = GET + b"Connection: close\r\n\r\n"
PARTS = b"POST /\x9b31m HTTP/1.1\r\n" + HOST + b"Content-Type: multipart/form-data\r\n\r\n"

MALFORMED = {
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/0.9 with fields": b"GET /\r\n" + HOST + b"\r\n",
    "HTTP/2.0": b"GET / HTTP/2.0\r\n" + HOST + b"\r\n",
    "HTTP/1.10": b"GET / HTTP/1.10\r\n" + HOST + b"\r\n",
    "vertical tabs": b"GET\x0b/\x0bHTTP/1.1\r\n" + HOST + b"\r\n",
    "spaces of Unicode": b"GET\x85/\xa0HTTP/1.1\r\n" + HOST + b"\r\n",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": GET + b"Host: shop.test\r\n\r\n",
    "space before the colon": GET + b"Content-Length : 5\r\n\r\nhello",
    "no colon": GET + b"asdf\r\n\r\n",
    "NUL": GET + b"X: a\0b\r\n\r\n",
    "a vertical tab in a field": GET + b"X: a\x0bContent-Length: 5\r\n\r\n",
    "folded": GET + b"X: a\r\n b\r\n\r\n",
    "two lengths": GET + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
    "two equal lengths": GET + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "two equal lengths, far apart": GET
    + b"Content-Length: 5\r\nX: a\r\ncontent-length: 5\r\n\r\nhello",
    "a list of equal lengths": GET + b"Content-Length: 5, 5\r\n\r\nhello",
    "a list of lengths": GET + b"Content-Length: 5,6\r\n\r\nhello",
    "a length with a comma": GET + b"Content-Length: 5,\r\n\r\nhello",
    "a length with a plus": GET + b"Content-Length: +5\r\n\r\nhello",
    "a negative length": GET + b"Content-Length: -5\r\n\r\nhello",
    "a length with an underscore": GET + b"Content-Length: 0_5\r\n\r\nhello",
    "a length with a space": GET + b"Content-Length: 0 5\r\n\r\nhello",
    "a length in hexadecimal": GET + b"Content-Length: 0x5\r\n\r\nhello",
    "a length in other digits": GET + b"Content-Length: \xb5\r\n\r\nhello",
    "an empty length": GET + b"Content-Length:\r\n\r\nhello",
    "a length of 20 digits": GET + b"Content-Length: 00000000000000000005\r\n\r\nhello",
    "a coding and a length": GET
    + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "an identity coding and a length": GET
    + b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
    "a length and a coding": GET
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an unknown coding": GET + b"Transfer-Encoding: pigeons\r\n\r\n",
    "chunked in HTTP/1.0": b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}
UNFINISHED = {
    "no empty line": b"GET / HTTP/1.1\r\n" + HOST,
    "half a field": b"GET / HTTP/1.0\r\nX",
    "half a body": b"GET / HTTP/1.0\r\nContent-Length: 5\r\n\r\nhe",
}


def respond(port: int, data: bytes, ends: bool = False) -> bytes:
    """Return all that a server sends until it closes the connection.

    With `ends` the client sends an end of file first.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(data)
        if ends:
            client.shutdown(socket.SHUT_WR)
        received = b""
        try:
            while new := client.recv(1 << 16):
                received += new
        except ConnectionResetError:  # it had not read everything
            pass
        return received


@of_our_own
def test_nothing_after_a_malformed_request_is_served(
    noop_server: server.Server,
) -> None:
    port, wrong = int(str(noop_server.facts["port"])), {}
    for kind, data in MALFORMED.items():
        received = respond(port, data + NEXT)
        is_refused = re.match(rb"HTTP/1\.[01] (400|501|505) ", received) is not None
        if not is_refused or received.count(b"HTTP/1.") != 1:
            wrong[kind] = received
    assert wrong == {}


@of_our_own
@pytest.mark.parametrize(
    "options", [b"close", b"TE, Close", b"close, TE", b"close\r\nConnection: TE"]
)
def test_nothing_after_a_request_that_closes_is_served(
    options: bytes, noop_server: server.Server
) -> None:
    data = GET + b"Connection: " + options + b"\r\n\r\n" + NEXT
    received = respond(int(str(noop_server.facts["port"])), data)
    assert received.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200"))
    assert received.count(b"HTTP/1.") == 1


NOTES = """
from pathlib import Path
RUNS = Path(__file__).with_name("runs")
def notes():
    with RUNS.open("a") as file:
        file.write(".")
"""


@pytest.mark.parametrize("name", ["sync", "loop", "threads"])
def test_nothing_after_a_request_that_closes_is_run(name: str, start: Any, tmp_path: Path) -> None:
    """There would be no second response, because the connection is closed."""
    (tmp_path / "noting.py").write_text(NOTES)
    running = start(name, f"{tmp_path}/noting.py:notes")
    port = int(str(running.facts["port"]))
    for options in (b"close", b"TE, close"):
        respond(port, GET + b"Connection: " + options + b"\r\n\r\n" + 2 * NEXT)
    respond(port, MALFORMED["two lengths"] + NEXT)
    for _ in range(3):  # they end later than what was run before
        respond(port, NEXT)
    assert (tmp_path / "runs").read_text() == 5 * "."


@of_our_own
def test_an_empty_line_before_a_request_is_ignored(noop_server: server.Server) -> None:
    port = int(str(noop_server.facts["port"]))
    assert respond(port, b"\r\n" + NEXT).endswith(b"ok")
    assert respond(port, b"\r\n", ends=True) == b""


@of_our_own
def test_a_request_that_is_not_complete_is_not_served(noop_server: server.Server) -> None:
    port = int(str(noop_server.facts["port"]))
    received = {kind: respond(port, data, ends=True) for kind, data in UNFINISHED.items()}
    assert {kind: each for kind, each in received.items() if not REFUSED.match(each)} == {}


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (b"".join(b"X-%d: y\r\n" % number for number in range(100)) + b"\r\n", 200),
        (b"".join(b"X-%d: y\r\n" % number for number in range(101)) + b"\r\n", 431),
        (b"X: " + b"y" * 60_000 + b"\r\n\r\n", 200),
        (b"X: " + b"y" * 70_000 + b"\r\n\r\n", 431),
        ((b"X: " + b"y" * 8000 + b"\r\n") * 9 + b"\r\n", 431),
        (b"X:" + b" " * 60_000 + b"\0\r\n\r\n", 400),
    ],
)
def test_a_head_of_sync_has_limits(fields: bytes, status: int) -> None:
    try:
        request_head.read(b"GET / HTTP/1.0\r\n", io.BufferedReader(io.BytesIO(fields)))
    except request_head.BadHead as error:
        assert error.status == status
    else:
        assert status == 200


def test_requests_that_tornado_logs_are_one_line_a_second() -> None:
    running = begin("loop", "noop_sync", "0")
    try:
        port = int(read_line(running.stderr).rpartition(":")[2].partition("/")[0])
        began = time.monotonic()
        for _ in range(20):
            assert respond(port, PARTS + NEXT).startswith(b"HTTP/1.1 ")
        took_s = time.monotonic() - began
        running.terminate()
        printed = running.communicate(timeout=20)[1]
    finally:
        running.kill()
    lines = printed.splitlines()
    assert 1 <= len(lines) <= took_s / log.INTERVAL + 1
    assert "\x9b" not in printed
    assert r"\x9b31m" in lines[0]


def test_an_error_that_a_library_logs_has_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_limit", log.new_limit())
    log.redirect_loggers("library.of.a.test")
    try:
        raise ValueError("odd")
    except ValueError:
        logging.getLogger("library.of.a.test").exception("it failed\nfor %s", "y" * 10_000)
    printed = capsys.readouterr().err
    assert printed.startswith(r"it failed\nfor yyy")
    assert (printed.count("\n"), len(printed)) == (1, log.LONGEST + 2)


WEBSOCKET = (
    GET + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hypercorn", "gunicorn_asgi"])
def test_a_websocket_is_refused_without_a_traceback(name: str) -> None:
    process = begin(name, "noop_sync", "0")
    try:
        port = int(read_line(process.stderr).rpartition(":")[2].partition("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(WEBSOCKET)
            assert client.recv(1000).startswith(b"HTTP/1.1 403 ")
    finally:
        process.terminate()
        code, lines = wait_for_end(process)
    assert (code, lines) == (0, [])
