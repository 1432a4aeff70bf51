"""The yielding selector: it leaves the turn of its loop to others for as long as it waits."""

from __future__ import annotations

import selectors
import threading


class Yielding(selectors.DefaultSelector):
    """Hold the lock `turn` but for the wait; the loop's thread has it when the loop begins."""

    def __init__(self, turn: threading.RLock) -> None:
        super().__init__()
        self._turn = turn

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events, as every selector does."""
        self._turn.release()
        try:
            return super().select(timeout)
        finally:
            self._turn.acquire()
