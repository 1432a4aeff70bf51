"""Pauses of the garbage collector in this process, and what glibc's malloc keeps without use.

The callbacks of the module gc run inside a collection. So they take no lock, which the interrupted
code may hold, and sum collections up to rows of at least INTERVAL. Times are CPU times: a process
may wait for a CPU meanwhile. Standard library only.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
from collections import deque
from contextlib import suppress
from time import monotonic, thread_time
from types import FrameType
from typing import Any

from offload.serving.metrics import probe
from offload.serving.metrics.user_code import is_users, place_of

INTERVAL = 0.05  # s of a row
KEPT = 6000  # rows; five minutes if there is a collection in each
FULL = 2  # the generation of all objects
FREEZE = "SERVER_FREEZE"  # the variable with which the application's objects are frozen
MOST_READ = 3  # full collections in a forked process whose effect on its memory is read
MIB = 1 << 20
HEAP = re.compile(rb"<heap .*?</heap>", re.DOTALL)
FREE = re.compile(rb'<total type="(?:fast|rest)" count="\d+" size="(\d+)"')
LARGEST = re.compile(rb'<system type="max" size="(\d+)"')

# start, s, longest s, full ones, s of those by a call of gc.collect()
_rows: deque[tuple[float, float, float, int, float]] = deque(maxlen=KEPT)
_cpu_s = 0.0  # of the thread at the start of the collection
_row_start = 0.0
_total_s = _longest_s = _called_s = 0.0
_full = 0
_is_called = False  # whether a call of gc.collect() started the collection
_caller: str | None = None  # the line of the user that was the last to call it
_forked_from: int | None = None  # the pid of the process that created the application
_private_mib: float | None = None  # before the collection
_copied_mib: list[float] = []  # by each of the first full collections of a forked process
_at_fork: dict[str, float | None] = {}  # the memory of this process after it was forked


def watch_collections() -> None:
    """Watch the collections of this process and of its forked children."""
    global _forked_from
    if _note not in gc.callbacks:
        gc.callbacks.append(_note)
        _forked_from = os.getpid()


def note_fork() -> None:
    """Note what this process shares with its parent; call it in a forked process that serves."""
    _at_fork.update(probe.memory_of(os.getpid()))


def _note(phase: str, info: dict[str, Any]) -> None:
    global _cpu_s, _row_start, _total_s, _longest_s, _called_s, _full, _is_called
    if info["generation"] == FULL and len(_copied_mib) < MOST_READ:
        _read_copied(phase)
    if phase == "start":
        # Otherwise the number of younger collections has just exceeded its threshold.
        _is_called = info["generation"] == FULL and gc.get_count()[2] <= gc.get_threshold()[2]
        if _is_called:
            _note_caller(sys._getframe().f_back)
        _cpu_s = thread_time()
        return
    took_s = thread_time() - _cpu_s
    started = monotonic() - took_s
    if started - _row_start > INTERVAL:
        if _total_s:
            _rows.append((_row_start, _total_s, _longest_s, _full, _called_s))
        _row_start, _total_s, _longest_s, _full, _called_s = started, 0.0, 0.0, 0, 0.0
    _total_s += took_s
    _called_s += took_s if _is_called else 0.0
    _longest_s = max(_longest_s, took_s)
    _full += info["generation"] == FULL


def _note_caller(frame: FrameType | None) -> None:
    """Note the innermost line of the user in a stack, which has called gc.collect()."""
    global _caller
    _caller = None
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is not None:
        function, file, line = place_of(frame.f_code, frame.f_lineno)
        _caller = f"{function} ({file}:{line})"


def _read_copied(phase: str) -> None:
    """Read how much memory a full collection copies: it writes to pages shared with the parent."""
    global _private_mib
    if os.getpid() == _forked_from:
        return
    private_mib = probe.memory_of(os.getpid())["private_mib"]
    if phase == "stop" and private_mib is not None and _private_mib is not None:
        _copied_mib.append(private_mib - _private_mib)
    _private_mib = private_mib


def collections_between(start: float, end: float) -> dict[str, Any]:
    """Return the share of a window that collections took, the longest one in s, and the full ones.

    A row counts for the window in which it starts. `called` is the share of the window that
    collections by a call of gc.collect() took, and `caller` the line that called it. `copied_mib`
    is the memory that the first full collections since the fork copied; None if this process
    created the application itself. `shared_mib` is the memory that this process shared after the
    fork, and `unshared_mib` the part of it that it has copied since.
    """
    rows = [*_rows, (_row_start, _total_s, _longest_s, _full, _called_s)]
    own = [row for row in rows if start <= row[0] < end]
    lasts_s = end - start
    is_forked = os.getpid() != _forked_from
    return {
        "share": round(sum(row[1] for row in own) / lasts_s, 4) if lasts_s > 0 else None,
        "longest_s": round(max((row[2] for row in own), default=0.0), 6),
        "full": sum(row[3] for row in own),
        "called": round(sum(row[4] for row in own) / lasts_s, 4) if lasts_s > 0 else None,
        "caller": _caller,
        "copied_mib": round(sum(_copied_mib), 2) if is_forked else None,
        "shared_mib": _at_fork.get("shared_mib"),
        "unshared_mib": _unshared_mib(),
    }


def _unshared_mib() -> float | None:
    """Return what is no longer shared, but at most what has become private: None is unknown.

    Shared memory that was freed is no copy, and new objects are private from the start.
    """
    now = probe.memory_of(os.getpid())
    shared_mib, private_mib = _at_fork.get("shared_mib"), _at_fork.get("private_mib")
    still_mib, now_mib = now["shared_mib"], now["private_mib"]
    if shared_mib is None or private_mib is None or still_mib is None or now_mib is None:
        return None
    return round(max(0.0, min(shared_mib - still_mib, now_mib - private_mib)), 2)


def freeze() -> None:
    """Exclude the objects so far from collections, if the server has the variable FREEZE."""
    if FREEZE in os.environ:
        gc.collect()
        gc.freeze()


# Each thread allocates from one of up to 8 arenas for each CPU, or MALLOC_ARENA_MAX. What it frees
# stays in that arena, and threads of other arenas cannot use it.


def malloc_figures() -> dict[str, float | int] | None:
    """Return the number of arenas, and what those beside the main one keep free; None: no glibc.

    `peak_mib` is the sum of the largest sizes that they have had.
    """
    heaps = [found.group() for found in HEAP.finditer(_malloc_info())]
    if not heaps:
        return None
    free = [sum(map(int, FREE.findall(heap))) for heap in heaps]
    peaks = [sum(map(int, LARGEST.findall(heap))) for heap in heaps]
    return {
        "arenas": len(heaps),
        "free_mib": round(sum(free[1:]) / MIB, 2),
        "peak_mib": round(sum(peaks[1:]) / MIB, 2),
    }


def _malloc_info() -> bytes:
    """Return what malloc_info() of glibc writes; empty if there is none."""
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    with suppress(OSError, AttributeError):  # not Linux, or another C library
        library = ctypes.CDLL(None)
        library.open_memstream.restype = ctypes.c_void_p
        library.malloc_info, library.gnu_get_libc_version  # noqa: B018 - glibc has both
        stream = ctypes.c_void_p(library.open_memstream(ctypes.byref(text), ctypes.byref(size)))
        library.malloc_info(0, stream)
        library.fclose(stream)
        try:
            return ctypes.string_at(text.value or 0, size.value)
        finally:
            library.free(text)
    return b""
