"""Samples: the newest rows of numbers, with their times. Standard library only.

Times are of CLOCK_MONOTONIC, which on Linux is the same in all processes of a machine.
"""

from __future__ import annotations

from struct import Struct

KEPT = 60_000  # rows; ten minutes of loop lag
SPARE = 10_000  # rows above KEPT, until the oldest ones are removed together


class Samples:
    """The newest KEPT rows of `columns` numbers; the first number is the time in seconds.

    It is thread-safe, also in a free-threaded build: a list can be copied while other threads add
    rows. A deque cannot (RuntimeError in 3.13), even if an import has enabled the GIL.
    """

    def __init__(self, columns: int) -> None:
        self._format = Struct(f"{columns}d")
        self._rows: list[bytes] = []  # a third of the memory of tuples
        self._has_removed = False

    def add(self, *row: float) -> None:
        """Add a row, and remove the oldest ones if there are too many."""
        self._rows.append(self._format.pack(*row))
        if len(self._rows) >= KEPT + SPARE:
            del self._rows[:SPARE]
            self._has_removed = True

    def rows(self) -> list[tuple[float, ...]]:
        """Return all stored rows, oldest first."""
        return [self._format.unpack(row) for row in self._rows.copy()]

    def between(self, start: float, end: float) -> list[tuple[float, ...]] | None:
        """Return the rows of a window; None if some of its rows are no longer stored."""
        rows = self.rows()
        if self._has_removed and (not rows or rows[0][0] > start):
            return None
        return [row for row in rows if start <= row[0] <= end]
