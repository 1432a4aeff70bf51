"""What went wrong while serving: one line an event on stderr, at most one a second."""

from __future__ import annotations

import sys
import time

EVERY = 1.0  # s between two lines, so that a task that always fails cannot fill a disk

_last = -EVERY
_silent = 0


def failed(message: str) -> None:
    """Print one failure, with the number of those since the last line that were not printed."""
    global _last, _silent
    now = time.monotonic()
    if now - _last < EVERY:
        _silent += 1
        return
    more = f" (and {_silent} more since the last line)" if _silent else ""
    _last, _silent = now, 0
    print(escaped(message) + more, file=sys.stderr, flush=True)


def escaped(text: str) -> str:
    """Keep a message on one line: control characters are shown as their escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
