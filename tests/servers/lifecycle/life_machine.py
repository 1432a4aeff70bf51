"""A state machine over the life of a server: requests, faults, stops, and starts on its port.

At each step a server that was not stopped serves, and a server that was stopped has left no process
and has freed its port. Each rule checks the statuses that docs/reliability.rst promises.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import ExitStack

import psutil
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from lab.faults.clients import concurrent_clients
from lab.faults.machine.processes import is_gone, kill
from lab.faults.machine.waiting import wait_until
from lab.faults.rows.failing_tasks import FAILURES
from lab.faults.servers.faulty_server import FaultyServer, faulty
from offload.engine import server
from tests.commands import can_listen, free_port

WORKERS = 2
LIMIT_S = 20.0  # of each wait
REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
EXIT_AT_ONCE = 128 + signal.SIGTERM


class LifeMachine(RuleBasedStateMachine):
    """One server that is started, used, hurt, stopped and started again, on one port."""

    servers = ("threads", "pipes", "processes", "prefork")

    @initialize(data=st.data(), protect=st.sampled_from(["yes", "no"]))
    def choose(self, data: st.DataObject, protect: str) -> None:
        self.name = data.draw(st.sampled_from(self.servers))
        self.settings = {"protect": protect, "idempotent": "yes"}
        self.port = free_port()
        self.target: FaultyServer | None = None
        self.left: list[psutil.Process] = []
        self.running = ExitStack()
        self.start_server()

    @property
    def is_running(self) -> bool:
        return self.target is not None

    @precondition(lambda self: not self.is_running)
    @rule()
    def start(self) -> None:
        self.start_server()

    def start_server(self) -> None:
        started = faulty(self.name, "ok", self.settings, WORKERS, port=self.port)
        self.target = self.running.enter_context(started)
        assert self.target.port == self.port

    @precondition(lambda self: self.is_running)
    @rule(count=st.integers(1, 6))
    def request(self, count: int) -> None:
        self.act("nap")
        assert concurrent_clients.send_at_once(self.port, count) == [200] * count

    @precondition(lambda self: self.is_running)
    @rule(how=st.sampled_from(FAILURES), count=st.integers(1, 3))
    def fail(self, how: str, count: int) -> None:
        self.act(how)
        assert concurrent_clients.send_at_once(self.port, count) == [500] * count

    @precondition(lambda self: self.is_running and self.name != "threads")
    @rule(which=st.integers(0, WORKERS - 1), count=st.integers(1, 4))
    def kill_worker(self, which: int, count: int) -> None:
        """Kill a worker while requests are in progress: only prefork may close connections."""
        assert wait_until(lambda: len(self.server.workers()) == WORKERS, LIMIT_S) is not None
        sender, statuses = self.begin(count)
        kill(self.server.workers()[which])
        self.act("ok")
        sender.join(LIMIT_S)
        assert len(statuses) == count
        assert {*statuses} <= ({200, 0} if self.name == "prefork" else {200}), statuses
        served = wait_until(lambda: concurrent_clients.send_at_once(self.port, 1) == [200], LIMIT_S)
        assert served is not None

    @precondition(lambda self: self.is_running)
    @rule(size=st.integers(0, len(REQUEST)), is_reset=st.booleans())
    def leave(self, size: int, is_reset: bool) -> None:
        """Disconnect after a part of a request, or after the whole."""
        self.act("nap")
        with socket.create_connection(("127.0.0.1", self.port), LIMIT_S) as client:
            client.sendall(REQUEST[:size])
            if is_reset:
                no_linger = b"\1\0\0\0\0\0\0\0"  # close() sends a reset
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)

    @precondition(lambda self: self.is_running)
    @rule(count=st.integers(0, 4), number=st.sampled_from([signal.SIGTERM, signal.SIGINT]))
    def stop(self, count: int, number: signal.Signals) -> None:
        """Stop it with requests in progress: each is answered, and the exit code is 0."""
        sender, statuses = self.begin(count)
        os.kill(self.server.pid, number)
        self.act("ok")
        sender.join(LIMIT_S)
        assert statuses == [200] * count
        self.end(0)

    @precondition(lambda self: self.is_running)
    @rule(count=st.integers(1, 2))
    def stop_at_once(self, count: int) -> None:
        """A second signal ends it, although its tasks hang."""
        sender, statuses = self.begin(count)
        os.kill(self.server.pid, signal.SIGTERM)
        # A second signal that follows within half a second counts as the same one.
        assert wait_until(lambda: not self.server.is_alive(), server.SHORT_DRAIN) is None
        os.kill(self.server.pid, signal.SIGTERM)
        sender.join(LIMIT_S)
        assert statuses == [0] * count
        self.end(EXIT_AT_ONCE)

    @invariant()
    def a_server_serves_until_it_is_stopped(self) -> None:
        if getattr(self, "target", None) is not None:
            assert self.server.is_alive()

    @invariant()
    def a_stopped_server_leaves_nothing(self) -> None:
        if getattr(self, "left", None) and not self.is_running:
            assert can_listen(self.port)
            assert all(map(is_gone, self.left))

    @property
    def server(self) -> FaultyServer:
        assert self.target is not None
        return self.target

    def act(self, how: str) -> None:
        self.server.act(how)

    def begin(self, count: int) -> tuple[threading.Thread, list[int]]:
        """Send requests whose tasks hang; wait until all are accepted, and a task has started.

        The thread ends with the last response, and the list then has all statuses.
        """
        self.act("hang")
        calls, statuses = self.server.calls(), list[int]()
        sender = threading.Thread(
            target=lambda: statuses.extend(concurrent_clients.send_at_once(self.port, count)),
            daemon=True,
        )
        sender.start()

        def is_in_progress() -> bool:
            return self.server.connected() >= count and self.server.calls() > calls

        assert not count or wait_until(is_in_progress, LIMIT_S) is not None
        self.left = [psutil.Process(self.server.pid), *self.server.descendants()]
        return sender, statuses

    def end(self, code: int) -> None:
        """Wait for the end of the server and of all its processes."""
        assert wait_until(lambda: not self.server.is_alive(), LIMIT_S) is not None
        assert self.server.exit_code() == code
        assert wait_until(lambda: all(map(is_gone, self.left)), LIMIT_S) is not None
        self.act("ok")  # for a task that the second signal left in a thread
        running = self.server.running
        self.running.close()
        assert not running.left
        self.target = None

    def teardown(self) -> None:
        if hasattr(self, "running"):
            self.running.close()
