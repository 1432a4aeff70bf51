"""Samples: the newest rows of numbers, with their times. Standard library only.

Times are of CLOCK_MONOTONIC, which on Linux is the same in all processes of a machine.
"""

from __future__ import annotations

from collections import deque
from struct import Struct

KEPT = 60_000  # rows; ten minutes of loop lag


class Samples:
    """The newest KEPT rows of `columns` numbers; the first number is the time in seconds.

    It is thread-safe.
    """

    def __init__(self, columns: int) -> None:
        self._format = Struct(f"{columns}d")
        self._rows: deque[bytes] = deque(maxlen=KEPT)  # a third of the memory of tuples

    def add(self, *row: float) -> None:
        """Add a row; it replaces the oldest one if KEPT rows are stored."""
        self._rows.append(self._format.pack(*row))

    def rows(self) -> list[tuple[float, ...]]:
        """Return all stored rows, oldest first."""
        return [self._format.unpack(row) for row in self._rows.copy()]

    def between(self, start: float, end: float) -> list[tuple[float, ...]] | None:
        """Return the rows of a window; None if some of its rows are no longer stored."""
        rows = self.rows()
        if len(rows) == KEPT and rows[0][0] > start:
            return None
        return [row for row in rows if start <= row[0] <= end]
