"""Linux's prctl: a process that ends with its parent, and one that adopts orphans.

Elsewhere these functions do nothing.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

SET_PDEATHSIG, SET_TIMERSLACK, SET_CHILD_SUBREAPER = 1, 29, 36


def end_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Have this process receive a signal when its parent ends, even by kill -9."""
    at_parents_end(parent, number)()


def at_parents_end(parent: int, number: int = signal.SIGKILL) -> Callable[[], None]:
    """Return what makes a child end with its parent; a preexec_fn may call it.

    The C library is loaded now, and not between fork and exec.
    """
    call = _prctl()

    def request() -> None:
        if call is not None:
            call(SET_PDEATHSIG, number, 0, 0, 0)
            if os.getppid() != parent:  # it ended before the call
                os._exit(1)

    return request


def adopt_orphans() -> None:
    """Make this process the parent of every orphan among its descendants."""
    if (call := _prctl()) is not None:
        call(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def sleep_exactly() -> bool:
    """Let sleeps of this thread end on time, not up to 50 us later; return whether it worked."""
    call = _prctl()
    return call is not None and call(SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0) == 0


def _prctl() -> Callable[..., int] | None:
    if sys.platform != "linux":
        return None
    call: Callable[..., int] = ctypes.CDLL(None).prctl
    return call
