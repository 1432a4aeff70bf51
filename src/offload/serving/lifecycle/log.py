"""Log failures while serving: one line per event on stderr, at most one per second.

A server and the processes forked from it have one common limit, in shared memory. They do not lock
it: two lines at the same moment are possible, and the number of suppressed lines is approximate.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import logging
import mmap
import sys
import time
from typing import TYPE_CHECKING

from offload.errors import escaped

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

LONGEST = 500  # characters of a message of a library, which may contain what a client sent
_print = print  # a task's module may replace it
INTERVAL = 1.0  # s between two lines, so that a task that always fails cannot fill a disk


class _Limit(ctypes.Structure):
    """The time of the last line in s, and the number of failures suppressed since then."""

    _fields_ = (("last", ctypes.c_double), ("suppressed", ctypes.c_long))


def new_limit() -> _Limit:
    """Return a limit that this process shares with those that it forks, without a line yet."""
    limit = _Limit.from_buffer(mmap.mmap(-1, ctypes.sizeof(_Limit)))
    limit.last = -INTERVAL
    return limit


_limit = new_limit()


def failure(message: str) -> None:
    """Print one failure, with the number of failures suppressed since the last line."""
    now = time.monotonic()
    if now - _limit.last < INTERVAL:
        _limit.suppressed += 1
        return
    more = f" (and {_limit.suppressed} more since the last line)" if _limit.suppressed else ""
    _limit.last, _limit.suppressed = now, 0
    line(message + more)


def line(text: str) -> None:
    """Print a line on stderr, whose hidden and control characters are escaped.

    The server continues if stderr is closed or its disk is full.
    """
    if sys.stderr is None:  # closed: print would write to stdout
        return
    with contextlib.suppress(OSError, ValueError):
        _print(escaped(text), file=sys.stderr, flush=True)


def discard_what_cannot_be_written() -> None:
    """Let this process continue, and end with its own exit code, if its output cannot be written.

    That is on a full disk or a closed pipe. Otherwise the text stays in the buffer of stdout or
    stderr; Python fails to write it at its end, too, and exits with 120.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not getattr(sys, f"__{name}__") or not isinstance(stream, io.TextIOWrapper):
            continue  # closed, or the stream of someone else
        stream.flush()
        lossy = io.TextIOWrapper(
            io.BufferedWriter(_Lossy(stream.fileno(), "wb", closefd=False)),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, lossy)
        setattr(sys, f"__{name}__", lossy)


class _Lossy(io.FileIO):
    """A file descriptor that discards what cannot be written now; later writes are tried again."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Write bytes; return how many were written or discarded."""
        written = None
        with contextlib.suppress(OSError):
            written = super().write(data)
        return memoryview(data).nbytes if written is None else written


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
