"""The guard of a server that runs tasks on its event loop.

A function blocks the loop, so requests wait in their sockets, where nobody can count them. But when
the loop reaches a request, the kernel knows how long it has waited and whether its client is still
connected.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from offload.serving.applications import responses
from offload.serving.metrics import process_counts
from offload.serving.protection.admission import waited_s, whole_seconds
from offload.serving.protection.disconnect import Client
from offload.serving.protection.pool_guard import Run
from offload.serving.protection.task_timeout import Abandoned, Timeouts


class LoopGuard:
    """The requests of one event loop.

    `cancel_s` is the timeout of a coroutine, `kill_s` that of a function: the kernel then kills
    this process, which its parent must replace. Either is None without such a timeout.
    """

    def __init__(self, max_wait: float, cancel_s: float | None, kill_s: float | None) -> None:
        self.counts = process_counts.create()
        self._max_wait = max_wait
        self._timeouts = None if cancel_s is None else Timeouts(cancel_s, self._cancel)
        self._cancel_s, self._kill_s = cancel_s, kill_s

    @property
    def in_flight(self) -> int:
        """The number of admitted requests without a response."""
        return self.counts["in_flight"]

    @property
    def stuck(self) -> int:
        """The number of coroutines that have exceeded the timeout and have not ended."""
        return 0 if self._timeouts is None else self._timeouts.stuck

    def unavailable(self) -> str | None:
        """Return None: a loop that can respond can also serve."""
        return None

    async def answer(self, run: Run, client: Client) -> responses.Answer:
        """Return the response to a request.

        Raise Abandoned if it had its response at the timeout.
        """
        if client.has_left():
            self.counts["dropped"] += 1
            return responses.unavailable("the client has disconnected")
        if (waited := waited_s(client.connection)) > self._max_wait:
            self.counts["refused"] += 1
            return responses.unavailable("overloaded: retry later", whole_seconds(waited))
        self.counts["in_flight"] += 1
        try:
            if self._timeouts is not None:
                client.task = asyncio.current_task()
                self._timeouts.add(client)
                try:
                    timed = await run()
                finally:
                    if self._timeouts.end(client):
                        raise Abandoned
            elif self._kill_s is not None:
                with _killed_after(self._kill_s):
                    timed = await run()
            else:
                timed = await run()
        finally:
            self.counts["in_flight"] -= 1
        return responses.from_task(timed)

    def _cancel(self, client: Client) -> None:
        """Respond to a request, and cancel its coroutine, which may ignore that."""
        assert client.task is not None
        assert self._cancel_s is not None
        self.counts["timed_out"] += 1
        client.respond(responses.timed_out(self._cancel_s))
        client.task.cancel()


@contextmanager
def _killed_after(seconds: float) -> Iterator[None]:
    """Inside the block, SIGALRM ends this process after `seconds`, even if it holds the GIL."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
