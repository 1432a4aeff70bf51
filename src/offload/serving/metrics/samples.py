"""Samples: rows of numbers by the time they were taken, the newest of them. Standard library only.

Times are of CLOCK_MONOTONIC, which on Linux is the same for every process of a machine.
"""

from __future__ import annotations

from array import array

KEPT = 60_000  # rows; of the loop's lag ten minutes


class Samples:
    """Rows of `columns` numbers, the first of which is the time in seconds."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._numbers = array("d")  # row after row: a quarter of what tuples take
        self._oldest = 0

    def add(self, *row: float) -> None:
        """Take a row in, and the place of the oldest one when KEPT are there."""
        if len(self._numbers) < KEPT * self._columns:
            self._numbers.extend(row)
            return
        self._numbers[self._oldest : self._oldest + self._columns] = array("d", row)
        self._oldest = (self._oldest + self._columns) % len(self._numbers)

    def rows(self) -> list[tuple[float, ...]]:
        """Give every row that is kept, in no order."""
        return list(zip(*[iter(self._numbers)] * self._columns, strict=True))

    def between(self, begin: float, end: float) -> list[tuple[float, ...]] | None:
        """Give the rows of a window; None when some of it is no longer kept."""
        full = len(self._numbers) == KEPT * self._columns
        if full and self._numbers[self._oldest] > begin:
            return None
        return [row for row in self.rows() if begin <= row[0] <= end]
