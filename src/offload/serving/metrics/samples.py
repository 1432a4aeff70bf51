"""Samples: rows of numbers by the time they were taken, the newest of them. Standard library only.

Times are of CLOCK_MONOTONIC, which on Linux is the same for every process of a machine.
"""

from __future__ import annotations

from collections import deque
from struct import Struct

KEPT = 60_000  # rows; of the loop's lag ten minutes


class Samples:
    """The newest KEPT rows of `columns` numbers, the first of which is the time in seconds.

    Threads may add rows at the same time.
    """

    def __init__(self, columns: int) -> None:
        self._format = Struct(f"{columns}d")
        self._rows: deque[bytes] = deque(maxlen=KEPT)  # a third of the memory that tuples take

    def add(self, *row: float) -> None:
        """Add a row, in place of the oldest one when KEPT are there."""
        self._rows.append(self._format.pack(*row))

    def rows(self) -> list[tuple[float, ...]]:
        """Return every row that is kept, oldest first."""
        return [self._format.unpack(row) for row in self._rows.copy()]

    def between(self, begin: float, end: float) -> list[tuple[float, ...]] | None:
        """Return the rows of a window; None when some of it is no longer kept."""
        rows = self.rows()
        if len(rows) == KEPT and rows[0][0] > begin:
            return None
        return [row for row in rows if begin <= row[0] <= end]
