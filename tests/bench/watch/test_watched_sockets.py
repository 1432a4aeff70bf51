"""The sockets of a process are seen from outside: its listen queue, and requests in progress."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from offload.studies.watch import sockets
from offload.studies.watch.sockets import SocketMeter, SocketUse

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports sockets")


def read(meter: SocketMeter) -> SocketUse:
    """Read the sockets of this process, as if an hour had passed since the last time."""
    meter.read([os.getpid()], 3600.0 * (1 + meter.use().readings))
    return meter.use()


@contextmanager
def connected(count: int, backlog: int) -> Iterator[tuple[socket.socket, list[socket.socket]]]:
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=backlog))
        clients = []
        for _ in range(count):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listening.getsockname())
            clients.append(client)
        time.sleep(0.1)
        yield listening, clients


def test_connections_that_a_full_listen_queue_drops_are_counted() -> None:
    with connected(1, backlog=2) as (listening, _):
        port, meter = listening.getsockname()[1], SocketMeter(os.getpid())
        found = read(meter)
        assert (found.dropped[port], found.places[port]) == (0, 2)
        with ExitStack() as stack:
            for _ in range(6):
                client = stack.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex(listening.getsockname())
            time.sleep(0.1)
            assert read(meter).dropped[port] >= 3


def test_a_request_is_in_progress_until_its_response_is_sent() -> None:
    meter, own = SocketMeter(os.getpid()), os.getpid()
    assert read(meter).requests[own] == 0
    with connected(1, backlog=8) as (listening, [client]):
        accepted, _ = listening.accept()
        with accepted:
            client.setblocking(True)
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            accepted.recv(100)
            time.sleep(0.02)  # the kernel has the times in ms
            found = read(meter)
            assert (found.in_progress[own], found.requests[own]) == (1, 1)
            accepted.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            client.recv(100)
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            accepted.recv(100)
            time.sleep(0.02)
            accepted.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            time.sleep(0.02)
            found = read(meter)
            assert (found.in_progress[own], found.requests[own]) == (1, 2)
    assert found.opened is not None
    assert found.opened >= 1
    assert (found.most_requests_per_s(own) or 0.0) >= 2 / (3 * 3600)


def test_a_client_sends_again_while_it_waits_for_what_follows_a_greeting() -> None:
    def sent_again() -> bool:
        time.sleep(0.02)  # the kernel has the times in ms
        local = client.getsockname()[1]
        found = sockets.read_sockets((sockets.ESTABLISHED,), sockets.INFO)
        [own] = (each for each in found if each.port == local)
        return own.sent_again

    with connected(1, backlog=8) as (listening, [client]):
        accepted, _ = listening.accept()
        with accepted:
            client.setblocking(True)
            assert not sent_again()
            accepted.sendall(b"+ hello")
            client.recv(100)
            assert not sent_again()  # as after the first part of a long response
            client.sendall(b"LOGIN")
            assert sent_again()
            accepted.sendall(b"+")
            assert not sent_again()


def test_a_process_of_another_user_has_unknown_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets.os, "access", lambda *_: False)
    found = read(SocketMeter(os.getpid()))
    assert found.why == f"only its user and root may see the connections of pid {os.getpid()}"
    assert found.most_requests_per_s(os.getpid()) is None
