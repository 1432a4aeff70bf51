"""The drain ends under load and with slow clients, and loses no accepted request."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from offload.serving.lifecycle import drain
from tests.servers.lifecycle.command_line import begin
from tests.servers.lifecycle.short_timeout import SENDING
from tests.waiting import read_line, wait_until

pytestmark = pytest.mark.server

CUT_OFF = 10.0  # s after a stop signal
OF_UVICORN = ("uvicorn_h11", "uvicorn_httptools")
UNDER_LOAD = ("loop", "prefork", *OF_UVICORN, "hypercorn", "waitress")
LARGE = 'def large(): return "x" * 16_000_000\n'
CLIENTS = 4


@contextmanager
def serving(
    name: str, task: str, timeout: str = "", prefix: Sequence[str] = ()
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a server; return its process and its port."""
    module = "tests.servers.lifecycle.short_timeout" if timeout else "offload.servers"
    process = begin(name, task, "0", module=module, prefix=prefix, SHORT_TIMEOUT=timeout)
    try:
        port = re.search(r"serves .*:(\d+)/", read_line(process.stderr))
        assert port is not None
        yield process, int(port[1])
    finally:
        process.kill()
        process.communicate(timeout=20)


class Client(threading.Thread):
    """Sends requests on a kept connection, and connects again, until no server listens."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._port = port
        self.statuses: list[int] = []
        self.error: Exception | None = None
        self.was_refused = False

    def run(self) -> None:
        try:
            while self._connects():
                continue
        except (OSError, http.client.HTTPException) as error:
            self.error = error

    def _connects(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
        try:
            connection.connect()
        except ConnectionRefusedError:
            self.was_refused = True
            return False
        while connection.sock is not None:  # None: the response announced the end
            connection.request("GET", "/")
            response = connection.getresponse()
            self.statuses.append(response.status)
            response.read()
        return True


@pytest.mark.parametrize("name", ["sync", *UNDER_LOAD])
def test_users_who_keep_sending_do_not_hold_the_drain(name: str) -> None:
    with serving(name, "noop_sync") as (process, port):
        clients = [Client(port) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        assert wait_until(lambda: all(len(client.statuses) > 20 for client in clients))
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert process.wait(20) == 0
        assert time.monotonic() - began < CUT_OFF / 2
        for client in clients:
            client.join(20)
        assert [client.error for client in clients] == [None] * CLIENTS
        assert all(client.was_refused for client in clients)
        assert {status for client in clients for status in client.statuses} == {200}


# The rights of an ordinary user, who may attach no filter to a socket on some kernels
UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []


@pytest.mark.parametrize("name", ["sync", *UNDER_LOAD])
def test_no_client_that_connects_during_the_stop_is_reset(name: str) -> None:
    """It is answered, or refused when it tries again a second later."""
    for _ in range(3):
        with serving(name, "noop_sync", prefix=UNPRIVILEGED) as (process, port):
            ends: list[str] = []
            connect = partial(connect_again, port, ends)
            clients = [threading.Thread(target=connect, daemon=True) for _ in range(4 * CLIENTS)]
            for client in clients:
                client.start()
            time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
            for client in clients:
                client.join(20)
            assert ends == ["refused"] * len(clients)


def connect_again(port: int, ends: list[str]) -> None:
    """Send requests, each on a new connection, until one fails; append how that ended."""
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                answer = b"".join(iter(partial(client.recv, 1 << 16), b""))
        except ConnectionRefusedError:
            ends.append("refused")
            return
        except OSError as error:
            ends.append(repr(error))
            return
        if b" 200 " not in answer:
            ends.append(repr(answer))
            return


KEPT = {
    "HTTP/1.0": b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "HTTP/1.1": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("request_", KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("name", ["loop", "threads", "prefork"])
def test_a_client_that_ignores_the_end_of_its_connection_does_not_hold_the_drain(
    name: str, request_: bytes
) -> None:
    with serving(name, "noop_sync") as (process, port), connected(port) as client:
        assert is_answered(client, request_)
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        while is_answered(client, request_):
            assert time.monotonic() - began < CUT_OFF / 2
        assert process.wait(20) == 0


@pytest.mark.parametrize("part", [b"", b"GET / HTTP/1.0\r\n"], ids=["idle", "half"])
@pytest.mark.parametrize("name", ["sync", "loop"])
def test_a_connection_without_a_whole_request_does_not_hold_the_drain(
    name: str, part: bytes
) -> None:
    with serving(name, "noop_sync") as (process, port), connected(port) as client:
        client.sendall(part)
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert process.wait(20) == 0
        assert time.monotonic() - began < CUT_OFF / 2


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def is_answered(client: socket.socket, data: bytes) -> bool:
    """Send a request for `noop_sync`; return whether the response is complete."""
    try:
        client.sendall(data)
        return received(client, lambda response: response.endswith(b"\r\n\r\nok")) != b""
    except ConnectionError:
        return False


def received(client: socket.socket, is_complete: Callable[[bytes], bool]) -> bytes:
    """Return what a server sends until it is complete, or the connection is closed."""
    response = b""
    while not is_complete(response) and (part := client.recv(4096)):
        response += part
    return response


# Each run is noted in the file `runs`, and ends when the file `go` is there.
HOLDS = """
import time
from pathlib import Path
HERE = Path(__file__).parent
def holds():
    with (HERE / "runs").open("a") as file:
        file.write(".")
    while not (HERE / "go").exists():
        time.sleep(0.01)
    return "ok"
"""


@pytest.mark.parametrize("name", ["loop", "threads", "processes"])
def test_requests_that_follow_on_a_connection_are_not_started_after_a_stop_signal(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "holds.py").write_text(HOLDS)
    task = f"{tmp_path}/holds.py:holds"
    with serving(name, task) as (process, port), connected(port) as client:
        client.sendall(3 * KEPT["HTTP/1.1"])
        assert wait_until((tmp_path / "runs").exists)
        process.send_signal(signal.SIGTERM)
        (tmp_path / "go").touch()
        response = received(client, lambda _: False)
        assert process.wait(20) == 0
    assert (response.count(b"HTTP/1.1 "), response.count(b"HTTP/1.1 200 ")) == (1, 1)
    assert (tmp_path / "runs").read_text() == "."


def requested(port: int) -> socket.socket:
    """Send a request whose response is larger than all buffers."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(20)
    client.connect(("127.0.0.1", port))
    client.sendall(b"GET / HTTP/1.0\r\n\r\n")
    assert client.recv(12)[-3:] == b"200"
    return client


@pytest.mark.parametrize("name", [*UNDER_LOAD, "threads"])
def test_a_client_that_does_not_read_does_not_hold_the_drain(name: str, tmp_path: Path) -> None:
    (tmp_path / "large.py").write_text(LARGE)
    with serving(name, f"{tmp_path}/large.py:large", "SENDING") as (process, port):
        with requested(port):
            process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            assert process.wait(20) == 0
        assert SENDING / 2 < time.monotonic() - began < CUT_OFF / 2


@pytest.mark.parametrize("name", [*UNDER_LOAD, "threads"])
def test_a_client_that_reads_gets_the_whole_response(name: str, tmp_path: Path) -> None:
    (tmp_path / "large.py").write_text(LARGE)
    with serving(name, f"{tmp_path}/large.py:large") as (process, port):
        with requested(port) as client, client.makefile("rb") as stream:
            process.send_signal(signal.SIGTERM)
            assert len(stream.read().partition(b"\r\n\r\n")[2]) == 16_000_000
        assert process.wait(20) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts them")
def test_a_full_listen_queue_lengthens_the_wait_for_handshakes() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=2) as listening, ExitStack() as stack:
        assert drain.refuse_new(listening) == drain.HANDSHAKE
        drain.set_min_ttl(listening, 0)
        for _ in range(8):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listening.getsockname())
        assert wait_until(lambda: drain.dropped_packets(listening) > 0)
        assert drain.refuse_new(listening) == drain.LATE_QUIET
