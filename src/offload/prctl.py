"""Linux's prctl: end a process with its parent, adopt orphans, and sleep exactly.

On other systems these functions do nothing.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

SET_PDEATHSIG, SET_TIMERSLACK, SET_CHILD_SUBREAPER = 1, 29, 36


def end_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Send this process a signal when its parent ends, even by kill -9."""
    parent_death_hook(parent, number)()


def parent_death_hook(parent: int, number: int = signal.SIGKILL) -> Callable[[], None]:
    """Return a function that makes a child end with its parent, for use as preexec_fn.

    The C library is loaded before, because this is not safe between fork and exec.
    """
    call = _prctl()

    def request() -> None:
        if call is not None:
            call(SET_PDEATHSIG, number, 0, 0, 0)
            if os.getppid() != parent:  # the parent ended before the call
                os._exit(1)

    return request


def adopt_orphans() -> None:
    """Make this process the parent of every orphan among its descendants."""
    if (call := _prctl()) is not None:
        call(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def sleep_exactly() -> bool:
    """Make this thread's sleeps end on time instead of up to 50 us late.

    Return whether this is supported.
    """
    call = _prctl()
    return call is not None and call(SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0) == 0


def _prctl() -> Callable[..., int] | None:
    if sys.platform != "linux":
        return None
    call: Callable[..., int] = ctypes.CDLL(None).prctl
    return call
