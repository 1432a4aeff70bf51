"""The counts of each process of a server, in memory that all of them share. Standard library only.

A process writes only its own row, so the rows need no locks. A process that replaces one that has
ended continues its row: counts since the start never decrease. Only on Linux; elsewhere, each
process knows only its own counts.
"""

from __future__ import annotations

import fcntl
import mmap
import operator
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile

EVENTS = ("completed", "failed", "refused", "dropped", "timed_out")
NOW = ("stuck", "in_flight")  # current numbers; those of a process that has ended do not count
NAMES = (*EVENTS, *NOW)
COLUMNS = 1 + len(NAMES)  # the pid is the first one
ROWS = 512  # processes; gunicorn may have 256 workers
SIZE = 8 * COLUMNS * ROWS
VARIABLE = "SERVER_COUNTS"  # the path of the memory, for processes that are not forked

_table: memoryview | None = None
_joined: int | None = None  # the pid that has a row: a forked child needs its own


class Counts:
    """The counts of this process, by name."""

    def __init__(self) -> None:
        self._row = memoryview(bytearray(8 * COLUMNS)).cast("q")

    def __getitem__(self, name: str) -> int:
        return self._row[_INDEX[name]]

    def __setitem__(self, name: str, value: int) -> None:
        self._row[_INDEX[name]] = value

    def move_to(self, row: memoryview) -> None:
        """Count in this row from now on."""
        self._row = row


_INDEX = {name: 1 + index for index, name in enumerate(NAMES)}
_counts: list[Counts] = []  # of this process


def create() -> Counts:
    """Return counts of this process; `join` moves them into the shared memory."""
    _counts.append(Counts())
    return _counts[-1]


def share() -> dict[str, object] | None:
    """Create the memory for the processes of this server; return its layout, None without one.

    Another process of this user can read it: see engine/processes.py.
    """
    if not hasattr(os, "memfd_create"):
        return None
    try:
        descriptor = os.memfd_create("offload-counts")  # open until this process ends
        os.truncate(descriptor, SIZE)
    except OSError:  # a sandbox may forbid it
        return None
    os.environ[VARIABLE] = path = f"/proc/{os.getpid()}/fd/{descriptor}"
    _map(descriptor)
    return {"path": path, "columns": COLUMNS, "responses": [_INDEX[name] for name in EVENTS]}


def join() -> None:
    """Count in a row of the shared memory from now on, if the server has one."""
    global _joined
    path = os.environ.get(VARIABLE)
    if path is None or _joined == os.getpid():
        return
    with suppress(OSError), _opened(path) as descriptor:
        if _table is None:
            _map(descriptor)
        assert _table is not None
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            row = next((each for each in _rows(_table) if not _is_alive(each[0])), None)
            if row is not None:  # else this process counts alone
                row[0] = _joined = os.getpid()
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # the mapping may keep the file open
        if row is not None:
            for name in NOW:
                row[_INDEX[name]] = 0
            for counts in _counts:
                counts.move_to(row)


def totals() -> dict[str, int] | None:
    """Return the sums over all processes; None if no process shares its counts."""
    rows = [] if _table is None else [*_used(_table)]
    if not rows:
        return None
    alive = [row for row in rows if _is_alive(row[0])]
    return {
        name: sum(row[_INDEX[name]] for row in (alive if name in NOW else rows)) for name in NAMES
    }


@contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _map(descriptor: int) -> None:
    global _table
    _table = memoryview(mmap.mmap(descriptor, SIZE)).cast("q")


def _rows(table: memoryview) -> Iterator[memoryview]:
    return (table[at : at + COLUMNS] for at in range(0, ROWS * COLUMNS, COLUMNS))


def _used(table: memoryview) -> Iterator[memoryview]:
    """Return the rows of processes, which are the first ones."""
    return takewhile(operator.itemgetter(0), _rows(table))


def _is_alive(pid: int) -> bool:
    """Whether a process of this server lives; 0 is none."""
    try:
        os.kill(pid, 0)
    except OSError:  # ended; or the pid is now that of another user's process
        return False
    return pid > 0
