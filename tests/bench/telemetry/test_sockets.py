"""Dropped connections are counted for the server's own port, within the window."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from offload.engine import sockets
from offload.engine.processes import ResourceSampler
from tests.waiting import wait_until

pytestmark = pytest.mark.server


@contextmanager
def listening() -> Iterator[socket.socket]:
    """Listen with a queue of one connection, and accept none."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        yield server


def overflow(server: socket.socket, stack: ExitStack) -> None:
    """Connect more often than its queue takes, until some are dropped."""
    port = server.getsockname()[1]
    before = sockets.dropped_connections(port) or 0
    for _ in range(5):
        client = stack.enter_context(socket.socket())
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", port))
    wait_until(lambda: (sockets.dropped_connections(port) or 0) > before, 5)


def test_only_the_queue_of_the_port_is_counted() -> None:
    with listening() as own, listening() as other, ExitStack() as stack:
        overflow(other, stack)
        assert sockets.dropped_connections(own.getsockname()[1]) == 0
        port = other.getsockname()[1]
    assert sockets.dropped_connections(port) is None  # nothing listens any more


def test_what_a_port_drops_in_a_window_is_in_its_record() -> None:
    with listening() as own, listening() as other, ExitStack() as stack:
        port = own.getsockname()[1]
        with ResourceSampler(os.getpid(), (), port) as watch:
            overflow(own, stack)
            overflow(other, stack)
            stack.close()  # else they try again
            time.sleep(0.3)
            middle = time.monotonic()
            time.sleep(0.3)
        dropped = sockets.dropped_connections(port)
    assert watch.between(None, None).listen_overflows == dropped
    assert watch.between(middle, time.monotonic()).listen_overflows == 0


def test_without_netlink_the_machine_s_counter_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_NETLINK")
    with listening() as other, ExitStack() as stack:
        assert sockets.dropped_connections(other.getsockname()[1]) is None
        with ResourceSampler(os.getpid(), (), other.getsockname()[1]) as watch:
            monkeypatch.undo()
            overflow(other, stack)
        dropped = sockets.dropped_connections(other.getsockname()[1])
    assert (watch.between(None, None).listen_overflows or 0) >= (dropped or 1)


def test_ports_in_time_wait_are_in_the_record() -> None:
    with listening() as server, ResourceSampler(os.getpid(), (), None) as watch:
        server.listen(64)
        port = server.getsockname()[1]
        for _ in range(40):
            with socket.create_connection(("127.0.0.1", port)) as client:
                accepted, _ = server.accept()
                client.close()  # first, so that its port waits
                accepted.close()
        found = watch
    ports = found.between(None, None).ports
    assert ports.available is not None and ports.available > 0
    assert ports.time_wait is not None and ports.time_wait >= 1
    assert ports.opened is not None and ports.opened >= 40
