"""Log failures while serving: one line per event on stderr, at most one per second."""

from __future__ import annotations

import sys
import time

INTERVAL = 1.0  # s between two lines, so that a task that always fails cannot fill a disk

_last = -INTERVAL
_suppressed = 0


def failure(message: str) -> None:
    """Print one failure, with the number of failures suppressed since the last line."""
    global _last, _suppressed
    now = time.monotonic()
    if now - _last < INTERVAL:
        _suppressed += 1
        return
    more = f" (and {_suppressed} more since the last line)" if _suppressed else ""
    _last, _suppressed = now, 0
    print(escaped(message) + more, file=sys.stderr, flush=True)


def escaped(text: str) -> str:
    """Escape control characters, so that a message is one line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
