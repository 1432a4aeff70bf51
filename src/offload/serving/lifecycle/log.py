"""Log failures while serving: one line per event on stderr, at most one per second.

A server and the processes forked from it have one common limit, in shared memory. They do not lock
it: two lines at the same moment are possible, and the number of suppressed lines is approximate.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import mmap
import sys
import time

from offload.errors import escaped

LONGEST = 500  # characters of a message of a library, which may contain what a client sent
INTERVAL = 1.0  # s between two lines, so that a task that always fails cannot fill a disk


class _Limit(ctypes.Structure):
    """The time of the last line in s, and the number of failures suppressed since then."""

    _fields_ = (("last", ctypes.c_double), ("suppressed", ctypes.c_long))


_limit = _Limit.from_buffer(mmap.mmap(-1, ctypes.sizeof(_Limit)))
_limit.last = -INTERVAL


def failure(message: str) -> None:
    """Print one failure, with the number of failures suppressed since the last line."""
    now = time.monotonic()
    if now - _limit.last < INTERVAL:
        _limit.suppressed += 1
        return
    more = f" (and {_limit.suppressed} more since the last line)" if _limit.suppressed else ""
    _limit.last, _limit.suppressed = now, 0
    line(escaped(message) + more)


def line(text: str) -> None:
    """Print a line on stderr; the server continues if that is closed or its disk is full."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def redirect_loggers(*names: str) -> None:
    """Print the warnings and errors of these loggers as failures: at most one line a second.

    By default, Python prints each of them, with its traceback.
    """
    for name in names:
        logger = logging.getLogger(name)
        logger.handlers = [_Handler(logging.WARNING)]
        logger.propagate = False


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Print a record, and the error that it is about."""
        error = record.exc_info[1] if record.exc_info else None
        message = record.getMessage() + ("" if error is None else f": {error!r}")
        failure(message[:LONGEST])
