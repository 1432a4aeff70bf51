"""A timer with a precision of microseconds; that of an event loop's timers is milliseconds."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
from collections.abc import Callable
from time import monotonic

CLOCK_MONOTONIC, ABSOLUTE = 1, 1
FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


class Timer:
    """Call `fire` at a time of CLOCK_MONOTONIC, with Linux's timerfd or else the loop's timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fire: Callable[[], None]) -> None:
        self._loop, self._fire = loop, fire
        self._handle: asyncio.TimerHandle | None = None
        self._fd = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None)
            self._fd = self._libc.timerfd_create(CLOCK_MONOTONIC, FLAGS)
        if self._fd >= 0:
            loop.add_reader(self._fd, self._read)

    def at(self, when: float) -> None:
        """Fire once at `when`, or immediately if that is past."""
        if self._fd < 0:
            self._handle = self._loop.call_later(max(0.0, when - monotonic()), self._fire)
            return
        seconds, nanoseconds = divmod(max(1, int(when * 1e9)), 1_000_000_000)
        setting = struct.pack("qqqq", 0, 0, seconds, nanoseconds)  # itimerspec: interval, value
        self._libc.timerfd_settime(self._fd, ABSOLUTE, setting, None)

    def close(self) -> None:
        """Cancel the timer."""
        if self._handle is not None:
            self._handle.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # the timer was set again in the meantime
            return
        self._fire()
