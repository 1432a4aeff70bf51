"""The stop signal: SIGTERM or SIGINT asks for a drain, a second one ends the process at once.

The drain is bounded by a thread and not by SIGALRM, which is the task's own to use. The handler of
the first signal runs between two bytecodes of the main thread: a task of sync or loop that stays in
one call of C code is not interrupted by it, and SIGKILL is what ends that.
"""

from __future__ import annotations

import _thread
import contextlib
import multiprocessing
import os
import shutil
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
        self._late: Callable[[], object] = lambda: None

    def listen(self, late: Callable[[], object]) -> None:
        """Take both signals over: nothing is lost while workers are still starting.

        `late` is called in a thread of its own DRAIN seconds after the first signal, if the process
        has not ended by then.
        """
        self._late = late
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
            with contextlib.suppress(RuntimeError):  # no thread left: a second signal still ends it
                _thread.start_new_thread(self._bound, ())  # threading's may hold its own lock now
            self._call()
        elif now - self.at > SAME:
            leave(128 + number)

    def _bound(self) -> None:
        time.sleep(DRAIN)
        self._late()


def leave(code: int) -> NoReturn:
    """End this process and its workers at once, also those whose task never gives its GIL up."""
    for worker in multiprocessing.active_children():
        worker.kill()
    config = getattr(multiprocessing.current_process(), "_config", {})
    if (folder := config.get("tempdir")) is not None:  # the forkserver's socket is in there
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


stop = Stop()
