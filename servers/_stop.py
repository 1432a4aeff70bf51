"""The stop signal: SIGTERM or SIGINT asks for a drain, a second one ends the process at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

DRAIN = 10.0  # s for the requests that were accepted before the signal
SAME = 0.5  # s: a second signal this soon is the first one again (a terminal signals the group)


class Stop:
    """Remember the first signal from `listen` on, and tell whoever asked by `then`."""

    def __init__(self) -> None:
        self.at: float | None = None
        self._callback: Callable[[], object] | None = None

    def listen(self) -> None:
        """Take both signals over: nothing is lost while workers are still starting."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def then(self, callback: Callable[[], object]) -> None:
        """Have `callback` called, from the signal handler, at the signal or now if it was seen.

        It runs between two instructions of the main thread, so it must neither wait nor raise.
        """
        self._callback = callback
        if self.at is not None:
            self._call()

    def _call(self) -> None:
        """Call what was asked for, once: a signal may come in the middle of `then`."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.at is None:
            self.at = now
            self._call()
        elif now - self.at > SAME:
            leave(128 + number)


def leave(code: int) -> NoReturn:
    """End this process and its workers at once, also those whose task never gives its GIL up."""
    for worker in multiprocessing.active_children():
        worker.kill()
    os._exit(code)


stop = Stop()
