"""How long an event loop is idle."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from time import monotonic  # imported by name: a task may replace it in its module


class LoopIdle:
    """Adds up the time in s that an event loop spends in the `select` of its selector, as `s`.

    The loop waits there for files and timers, and then for the GIL. The rest is the time of its
    callbacks and coroutines, with their own waits for the GIL or a CPU. `is_known` is False if the
    loop has no selector of its own, such as that of uvloop.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.s = 0.0
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
                self.s += monotonic() - before

        selector.select = timed
