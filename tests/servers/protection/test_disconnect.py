"""Disconnected clients: their requests are dropped before they start."""

from __future__ import annotations

import http.client
import os
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from offload.serving.protection.admission import has_closed
from tests.http_clients import get
from tests.servers.protection.conftest import Protected, counts
from tests.waiting import wait_until

pytestmark = pytest.mark.server

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("name", ["loop", "threads", "processes", "pipes"])
def test_requests_of_clients_that_left_are_not_started(name: str, protected: Protected) -> None:
    running = protected(name, "hold", **({} if name == "loop" else {"workers": 1}))
    naps = Path(os.environ["NAPS"])
    address = ("127.0.0.1", int(str(running.facts["port"])))
    clients = [socket.create_connection(address, timeout=20) for _ in range(6)]
    for client in clients:
        client.sendall(REQUEST)
    assert wait_until(lambda: naps.stat().st_size == 1)
    for client in clients:
        client.close()
    Path(os.environ["HANG"]).unlink()
    assert wait_until(lambda: counts(running)["dropped"] == 5)
    assert get(running.url) == (200, b"done")
    assert naps.stat().st_size == 2  # one of a client that left, and the last


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="only Linux reports it")
def test_a_connection_that_was_closed_by_its_client_is_recognised() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        with closing(listening.accept()[0]) as accepted:
            client.sendall(REQUEST)
            assert not has_closed(accepted)
            client.close()
            assert wait_until(lambda: has_closed(accepted))
            assert accepted.recv(len(REQUEST)) == REQUEST
        assert has_closed(accepted)


# While the file `held` is there, the task occupies its worker. It notes how many requests the
# server keeps. The collector of reference cycles is off: a cycle keeps a request until it runs.
COUNTS = """
import gc, time
from pathlib import Path
gc.disable()
HERE = Path(__file__).parent
def counts():
    while True:
        kept = sum(type(each).__name__ == "_ProtectedHandler" for each in gc.get_objects())
        (HERE / "new").write_text(str(kept))
        (HERE / "new").replace(HERE / "kept")
        if not (HERE / "held").exists():
            return str(kept)
        time.sleep(0.02)
"""
FEW = 5  # the request of the task, and others that are just ending


def test_requests_that_have_ended_are_not_kept(start: Any, tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(COUNTS)
    (tmp_path / "held").touch()
    running = start("threads", f"{tmp_path}/counting.py:counts", workers=1, protect="yes")
    address = ("127.0.0.1", int(str(running.facts["port"])))
    with socket.create_connection(address, timeout=20) as held:
        held.sendall(REQUEST)
        assert wait_until((tmp_path / "kept").exists)
        for dropped in range(1, 11):
            with socket.create_connection(address, timeout=20) as client:
                client.sendall(REQUEST)
                counts(running)  # by its response, the request waits
            assert wait_until(lambda n=dropped: counts(running)["dropped"] == n)
        assert wait_until(lambda: int((tmp_path / "kept").read_text()) <= FEW)
        (tmp_path / "held").unlink()
    assert [int(get(running.url)[1]) <= FEW for _ in range(10)] == [True] * 10


def test_without_protection_they_run(protected: Protected) -> None:
    running = protected("threads", "nap", workers=2, protect="no")
    naps = Path(os.environ["NAPS"])
    address = ("127.0.0.1", int(str(running.facts["port"])))
    for _ in range(6):
        with socket.create_connection(address, timeout=20) as client:
            client.sendall(REQUEST)
    assert wait_until(lambda: naps.stat().st_size == 6)


def test_a_kept_connection_serves_further_requests(protected: Protected) -> None:
    running = protected("threads", "nap", workers=1)
    port = int(str(running.facts["port"]))
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as client:
        for number in range(2):
            used = client.sock
            client.request("GET", "/")
            response = client.getresponse()
            assert (response.status, response.read()) == (200, b"rested")
            assert number == 0 or client.sock is used
