"""The stop signal: SIGTERM or SIGINT starts a drain, a second one ends the process at once.

A thread limits the time of the drain; SIGALRM is left to tasks. The handler of the first signal
runs between two bytecodes of the main thread. So it cannot interrupt a task of `sync` or `loop`
inside one C call; only SIGKILL ends such a task.
"""

from __future__ import annotations

import _thread
import contextlib
import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from time import monotonic, sleep  # by name: a module of the user may replace those of `time`
from types import FrameType
from typing import NoReturn

SIGNALS = (signal.SIGTERM, signal.SIGINT)
DRAIN = 10.0  # s for the requests that were accepted before the signal
DROPPED = 1  # exit code if requests are unfinished after DRAIN: that is no success
DUPLICATE = 0.5  # s: a second signal this soon is ignored (a terminal signals the whole group)

temporary_folders: list[str] = []  # of this process, which `exit_now` removes


class Stop:
    """Remember the first signal after `listen`, and call the callback set by `set_callback`.

    `has_drained` is set by the server when no request is unfinished.
    """

    def __init__(self) -> None:
        self.has_drained = False
        self.at: float | None = None  # when the first signal arrived, by the monotonic clock
        self._callback: Callable[[], object] | None = None
        self._on_timeout: Callable[[], object] = lambda: None
        self._listens = False

    def listen(self, on_timeout: Callable[[], object]) -> None:
        """Handle both signals from now on, also while workers are starting.

        `on_timeout` is called in a separate thread DRAIN seconds after the first signal, unless
        the process has ended.
        """
        self._on_timeout = on_timeout
        self.listen_again()

    def listen_again(self) -> None:
        """Handle both signals, after a library has set its own handlers."""
        self._listens = True
        for number in SIGNALS:
            signal.signal(number, self._handle)

    def restore(self) -> None:
        """Handle both signals again if a task has replaced the handlers or blocked the signals.

        Only the main thread can call it, and only there can a task do this. Before `listen` it does
        nothing.
        """
        if not self._listens:
            return
        if any(signal.getsignal(number) != self._handle for number in SIGNALS):
            self.listen_again()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def set_callback(self, callback: Callable[[], object]) -> None:
        """Call `callback` from the signal handler, or now if the signal has already arrived.

        It runs between two instructions of the main thread, so it must not block or raise.
        """
        self._callback = callback
        if self.at is not None:
            self._call()

    def _call(self) -> None:
        """Call the callback once, even if a signal arrives during `set_callback`."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = monotonic()
        if self.at is None:
            self.at = now
            with contextlib.suppress(RuntimeError):  # no thread: a second signal ends it
                _thread.start_new_thread(self._limit_drain, ())  # threading may hold its lock now
            self._call()
        elif now - self.at > DUPLICATE:
            exit_now(128 + number)

    def _limit_drain(self) -> None:
        sleep(DRAIN)
        self._on_timeout()


def exit_now(code: int) -> NoReturn:
    """End this process and its workers at once, even workers that never release their GIL."""
    for worker in multiprocessing.active_children():
        worker.kill()
    config = getattr(multiprocessing.current_process(), "_config", {})
    if (folder := config.get("tempdir")) is not None:  # it contains the forkserver's socket
        temporary_folders.append(folder)
    for folder in temporary_folders:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(code)


stop = Stop()
