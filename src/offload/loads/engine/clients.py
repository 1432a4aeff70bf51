"""Clients: the connections of one load process, what they saw, and when they are to stop."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from time import monotonic

from offload.loads import Load
from offload.loads.engine.connection import Connection
from offload.loads.engine.samples import Samples
from offload.loads.engine.target import Target, target

IN_A_ROW = 1000  # failures without one completed request between, after which nothing will follow


class Clients:
    """What the closed and the open loop have in common; `next` differs."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, load: Load) -> None:
        self.load = load
        self.samples = Samples()
        self.target: Target = target(load)
        self.connections: list[Connection] = []
        self.stopped = False
        self._stop = asyncio.Event()
        self._in_a_row = 0
        self._completed = 0  # when the last request failed
        _allow_descriptors(load.users)

    def begin(self) -> None:
        """Ask the first requests; a loop is running."""
        raise NotImplementedError

    def next(self, connection: Connection, now: float) -> None:
        """Say what a connection does whose request has ended."""
        raise NotImplementedError

    def ask_no_more(self) -> None:
        """Begin no more requests, where users wait for answers before they do."""

    def fail(self, kind: str, began: float, now: float) -> None:
        """Count a request that failed; after many in a row stop, for nothing will follow."""
        samples = self.samples
        samples.failed.append((kind, began, now))
        if len(samples.ended) != self._completed:
            self._completed, self._in_a_row = len(samples.ended), 0
        self._in_a_row += 1
        if self._in_a_row >= IN_A_ROW:
            self.stop(f"builtin gave up after {IN_A_ROW} failures in a row ({kind})")

    def stop(self, problem: str | None = None) -> None:
        """Ask no more, and note what is in flight; the first call counts."""
        if self.stopped:
            return
        self.stopped = True
        self._stop.set()
        samples = self.samples
        samples.over, samples.problem = monotonic(), problem
        samples.unfinished = [c.began for c in self.connections if c.began is not None]
        for connection in self.connections:
            connection.leave()

    async def wait(self, seconds: float) -> None:
        """Wait for the stop, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    def is_warm(self) -> bool:
        """Say whether every connection has had an answer."""
        return all(c.answers for c in self.connections)

    def is_settled(self, at: float) -> bool:
        """Say whether all that a server had been sent at a time has ended."""
        return all(c.began is None or c.sent is None or c.sent > at for c in self.connections)

    def sweep(self, now: float) -> None:
        """End the requests that are over their time."""
        late = now - self.load.timeout
        for connection in self.connections:
            if connection.began is not None and connection.began < late:
                connection.give_up()


def _allow_descriptors(users: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = users + 64
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
