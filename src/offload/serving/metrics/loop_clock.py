"""A clock for the time in which an event loop runs callbacks and coroutines."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from time import monotonic  # imported by name: a task may replace it in its module

from offload.serving.metrics.sequential_calls import scheduling


class LoopClock:
    """Measures how long an event loop is idle: the time that it spends in its selector.

    There the loop waits for files and timers, and then for the GIL. `is_known` is False if the loop
    has no selector of its own, such as that of uvloop.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._idle_s = 0.0
        selector = getattr(loop, "_selector", None)  # a loop has no public access to it
        self.is_known = selector is not None
        if selector is None:
            return
        select = selector.select

        def timed(timeout: float | None = None) -> list[object]:
            before = monotonic()
            try:
                return select(timeout)  # type: ignore[no-any-return]
            finally:
                self._idle_s += monotonic() - before

        selector.select = timed

    def running_s(self) -> float:
        """Return a time in s that stops while the loop of this thread is idle or has no CPU.

        A wait for a CPU after `select` is subtracted twice, so the CPU time may be larger.
        """
        queued_s, _ = scheduling()
        return monotonic() - self._idle_s - queued_s
