"""Samples: the newest rows of numbers, with their times. Standard library only.

Times are of CLOCK_MONOTONIC, which on Linux is the same in all processes of a machine.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from struct import Struct

KEPT = 60_000  # rows; ten minutes of loop lag
CHUNK = 1000  # rows whose memory is allocated, or reused, together


class Samples:
    """The newest KEPT rows, or up to CHUNK more, of `columns` numbers; the first is the time in s.

    It is thread-safe, also in a free-threaded build. A row takes 8 bytes a number, so that a server
    which collects samples for ten minutes grows little.
    """

    def __init__(self, columns: int) -> None:
        self._format = Struct(f"{columns}d")
        self._size = CHUNK * self._format.size
        self._chunks: deque[bytearray] = deque()  # all are full except the newest
        self._end = self._size  # bytes that are used in the newest chunk
        self._has_removed = False
        self._lock = threading.Lock()

    def add(self, *row: float) -> None:
        """Add a row, and remove the oldest ones if there are too many."""
        with self._lock:
            if self._end == self._size:
                self._add_chunk()
            self._format.pack_into(self._chunks[-1], self._end, *row)
            self._end += self._format.size

    def rows(self) -> list[tuple[float, ...]]:
        """Return all stored rows, oldest first."""
        return [*self._unpack()]

    def between(self, start: float, end: float) -> list[tuple[float, ...]] | None:
        """Return the rows of a window; None if some of its rows are no longer stored.

        Only these exist at once, each of 0.5 KiB: else the memory of a server would grow by each
        report of all rows, as if its application leaked.
        """
        if self._has_removed:
            first = next(self._unpack(), None)
            if first is None or first[0] > start:
                return None
        return [row for row in self._unpack() if start <= row[0] <= end]

    def _unpack(self) -> Iterator[tuple[float, ...]]:
        with self._lock:
            stored = b"".join(self._chunks)
            unused = self._size - self._end
        return self._format.iter_unpack(stored[: len(stored) - unused])

    def _add_chunk(self) -> None:
        if len(self._chunks) * CHUNK > KEPT:
            self._chunks.append(self._chunks.popleft())
            self._has_removed = True
        else:
            self._chunks.append(bytearray(self._size))
        self._end = 0
