"""Samples: rows of numbers by the time they were taken, the newest of them. Standard library only.

Times are of CLOCK_MONOTONIC, which on Linux is the same for every process of a machine.
"""

from __future__ import annotations

from array import array

KEPT = 60_000  # rows; of the loop's lag ten minutes


class Samples:
    """Columns of equal length, the first of which is the time in seconds."""

    def __init__(self, columns: int) -> None:
        self._columns = tuple(array("d") for _ in range(columns))
        self._oldest = 0

    def add(self, *row: float) -> None:
        """Take a row in, and the place of the oldest one when KEPT are there."""
        if len(self._columns[0]) < KEPT:
            for column, value in zip(self._columns, row, strict=True):
                column.append(value)
            return
        for column, value in zip(self._columns, row, strict=True):
            column[self._oldest] = value
        self._oldest = (self._oldest + 1) % KEPT

    def rows(self) -> list[tuple[float, ...]]:
        """Give every row that is kept, in no order."""
        return list(zip(*self._columns, strict=True))

    def between(self, begin: float, end: float) -> list[tuple[float, ...]] | None:
        """Give the rows of a window; None when some of it is no longer kept."""
        times = self._columns[0]
        if len(times) == KEPT and times[self._oldest] > begin:
            return None
        return [row for row in self.rows() if begin <= row[0] <= end]
