"""Pauses of the garbage collector: their time, the longest one, and the number of full collections.

The callbacks of the module gc run inside a collection. So they take no lock, which the interrupted
code may hold, and sum collections up to rows of at least INTERVAL. Times are CPU times: a process
may wait for a CPU meanwhile. Standard library only.
"""

from __future__ import annotations

import gc
import os
from collections import deque
from time import monotonic, thread_time
from typing import Any

from offload.serving.metrics import probe

INTERVAL = 0.05  # s of a row
KEPT = 6000  # rows; five minutes if there is a collection in each
FULL = 2  # the generation of all objects
FREEZE = "SERVER_FREEZE"  # the variable with which the application's objects are frozen
MOST_READ = 3  # full collections in a forked process whose effect on its memory is read

_rows: deque[tuple[float, float, float, int]] = deque(maxlen=KEPT)  # end, s, longest s, full ones
_cpu_s = 0.0  # of the thread at the start of the collection
_row_start = 0.0
_total_s = _longest_s = 0.0
_full = 0
_forked_from: int | None = None  # the pid of the process that created the application
_private_mib: float | None = None  # before the collection
_copied_mib: list[float] = []  # by each of the first full collections of a forked process


def watch() -> None:
    """Watch the collections of this process and of its forked children."""
    global _forked_from
    if _note not in gc.callbacks:
        gc.callbacks.append(_note)
        _forked_from = os.getpid()


def _note(phase: str, info: dict[str, Any]) -> None:
    global _cpu_s, _row_start, _total_s, _longest_s, _full
    if info["generation"] == FULL and len(_copied_mib) < MOST_READ:
        _read_copied(phase)
    if phase == "start":
        _cpu_s = thread_time()
        return
    took_s = thread_time() - _cpu_s
    started = monotonic() - took_s
    if started - _row_start > INTERVAL:
        if _total_s:
            _rows.append((_row_start, _total_s, _longest_s, _full))
        _row_start, _total_s, _longest_s, _full = started, 0.0, 0.0, 0
    _total_s += took_s
    _longest_s = max(_longest_s, took_s)
    _full += info["generation"] == FULL


def _read_copied(phase: str) -> None:
    """Read how much memory a full collection copies: it writes to pages shared with the parent."""
    global _private_mib
    if os.getpid() == _forked_from:
        return
    private_mib = probe.memory_of(os.getpid())["private_mib"]
    if phase == "stop" and private_mib is not None and _private_mib is not None:
        _copied_mib.append(private_mib - _private_mib)
    _private_mib = private_mib


def between(start: float, end: float) -> dict[str, Any]:
    """Return the share of a window that collections took, the longest one in s, and the full ones.

    A row counts for the window in which it starts. `copied_mib` is the memory that the first full
    collections since the fork copied; None if this process created the application itself.
    """
    rows = [*_rows, (_row_start, _total_s, _longest_s, _full)]
    own = [row for row in rows if start <= row[0] < end]
    lasts_s = end - start
    return {
        "share": round(sum(row[1] for row in own) / lasts_s, 4) if lasts_s > 0 else None,
        "longest_s": round(max((row[2] for row in own), default=0.0), 6),
        "full": sum(row[3] for row in own),
        "copied_mib": None if os.getpid() == _forked_from else round(sum(_copied_mib), 2),
    }


def freeze() -> None:
    """Exclude the objects so far from collections, if the server has the variable FREEZE."""
    if FREEZE in os.environ:
        gc.collect()
        gc.freeze()
