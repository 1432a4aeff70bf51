"""Clients: the connections of one load process, and their samples."""

from __future__ import annotations

import asyncio
import contextlib
from time import monotonic

from offload.loads import Load, _validation
from offload.loads.engine.connections.checked_connection import CheckedConnection, ExpectedBody
from offload.loads.engine.connections.connection import Connection
from offload.loads.engine.connections.target import Target, target
from offload.loads.engine.figures.samples import Samples

# A load stops if its requests have failed consecutively for FAILING_S, and at least this number of
# them: the server is regarded as gone.
CONSECUTIVE_FAILURES = 1000
FAILURES_PER_USER = 4  # one failure per user may only mean that the server was full for a moment
FAILING_S = 2.0


class Clients:
    """The base class of the closed and the open loop, which implement `start` and `next`."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, load: Load) -> None:
        self.load = load
        self.samples = Samples()
        self.target: Target = target(load)
        self.connections: list[Connection] = []
        sha256 = load.response_sha256
        self._expected = None if sha256 is None else ExpectedBody(sha256)
        self.stopped = False
        self._stop = asyncio.Event()
        self._failures_in_sequence = 0
        self._max_failures = max(CONSECUTIVE_FAILURES, FAILURES_PER_USER * load.users)
        self._failing_since = 0.0
        self._completed = -1  # completed requests when the last request failed
        _validation.raise_open_files_limit(load.users)

    def start(self, now: float) -> None:
        """Send the first requests, in the running event loop; the load starts at `now`."""
        raise NotImplementedError

    def next(self, connection: Connection, now: float) -> None:
        """Send the next request on a connection whose request has ended, or none."""
        raise NotImplementedError

    def new_connection(self) -> Connection:
        """Return a connection, which checks bodies if the load has an expected body."""
        if self._expected is None:
            return Connection(self)
        return CheckedConnection(self, self._expected)

    def stop_sending(self) -> None:
        """Send no further requests; those in flight may have a response."""
        raise NotImplementedError

    def fail(self, kind: str, started: float, now: float) -> None:
        """Record a failed request; stop the load after too many consecutive failures."""
        samples = self.samples
        samples.failed.append((kind, started, now))
        if len(samples.ended) != self._completed:
            self._completed, self._failures_in_sequence = len(samples.ended), 0
            self._failing_since = now
        self._failures_in_sequence += 1
        failures = self._failures_in_sequence
        if failures >= self._max_failures and now - self._failing_since >= FAILING_S:
            self.stop(f"builtin stopped after {failures} consecutive failures ({kind})")

    def stop(self, problem: str | None = None) -> None:
        """Stop the load and record the requests in flight; only the first call has an effect."""
        if self.stopped:
            return
        self.stopped = True
        self._stop.set()
        samples = self.samples
        samples.over, samples.problem = monotonic(), problem
        samples.unfinished = [c.started for c in self.connections if c.started is not None]
        samples.requests = sum(c.requests for c in self.connections)
        for connection in self.connections:
            connection.close()

    async def wait(self, seconds: float) -> None:
        """Wait until the load stops, but not longer than `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    def is_warm(self) -> bool:
        """Whether every connection has had a response."""
        return all(c.responses for c in self.connections)

    def is_settled(self, at: float) -> bool:
        """Whether every request that was sent at `at` or before has ended."""
        return all(c.started is None or c.sent is None or c.sent > at for c in self.connections)

    def sweep(self, now: float) -> None:
        """Fail the requests that exceeded their timeout."""
        late = now - self.load.timeout
        for connection in self.connections:
            if connection.started is not None and connection.started < late:
                connection.time_out()
