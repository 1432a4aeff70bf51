"""Pauses of the garbage collector: their time, the longest one, and the number of full collections.

The callbacks of the module gc run inside a collection. So they take no lock, which the interrupted
code may hold, and sum collections up to rows of at least INTERVAL. Standard library only.
"""

from __future__ import annotations

import gc
import os
from collections import deque
from time import monotonic
from typing import Any

INTERVAL = 0.05  # s of a row
KEPT = 6000  # rows; five minutes if there is a collection in each
FULL = 2  # the generation of all objects
FREEZE = "SERVER_FREEZE"  # the variable with which the application's objects are frozen

_rows: deque[tuple[float, float, float, int]] = deque(maxlen=KEPT)  # end, s, longest s, full ones
_started = 0.0
_row_start = 0.0
_total_s = _longest_s = 0.0
_full = 0


def watch() -> None:
    """Watch the collections of this process and of its forked children."""
    if _note not in gc.callbacks:
        gc.callbacks.append(_note)


def _note(phase: str, info: dict[str, Any]) -> None:
    global _started, _row_start, _total_s, _longest_s, _full
    now = monotonic()
    if phase == "start":
        _started = now
        return
    took_s = now - _started
    if _started - _row_start > INTERVAL:
        if _total_s:
            _rows.append((_row_start, _total_s, _longest_s, _full))
        _row_start, _total_s, _longest_s, _full = _started, 0.0, 0.0, 0
    _total_s += took_s
    _longest_s = max(_longest_s, took_s)
    _full += info["generation"] == FULL


def between(start: float, end: float) -> dict[str, Any]:
    """Return the share of a window that collections took, the longest one in s, and the full ones.

    A row counts for the window in which it starts.
    """
    rows = [*_rows, (_row_start, _total_s, _longest_s, _full)]
    own = [row for row in rows if start <= row[0] < end]
    lasts_s = end - start
    return {
        "share": round(sum(row[1] for row in own) / lasts_s, 4) if lasts_s > 0 else None,
        "longest_s": round(max((row[2] for row in own), default=0.0), 6),
        "full": sum(row[3] for row in own),
    }


def freeze() -> None:
    """Exclude the objects so far from collections, if the server has the variable FREEZE."""
    if FREEZE in os.environ:
        gc.collect()
        gc.freeze()
