"""A selector that counts how long its event loop is idle."""

from __future__ import annotations

import selectors
from time import monotonic  # imported by name: a task may replace it in its module


class IdleSelector(selectors.DefaultSelector):
    """Adds up the time in s that an event loop spends in `select`, as `idle_s`.

    The loop waits there for files and timers, and then for the GIL. The rest is the time of its
    callbacks and coroutines, with their own waits for the GIL or a CPU.
    """

    idle_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events like the selector of the standard library."""
        before = monotonic()
        try:
            return super().select(timeout)
        finally:
            self.idle_s += monotonic() - before
