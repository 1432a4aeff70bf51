"""Shared state: numbers in shared memory that synchronize the processes of one load."""

from __future__ import annotations

import mmap

LOAD_START, WINDOW_START, WINDOW_END, LOAD_END = range(4)  # times, set once; 0 until then
READY, WARM, COMPLETED, SETTLED = range(4, 8)  # values that each process publishes


class SharedState:
    """State shared with forked children. Process 0 decides the times of the phases for all.

    Other processes may read these times late, because every request is recorded with its own times.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._numbers = memoryview(mmap.mmap(-1, 8 * (4 + 4 * processes))).cast("d")

    def time(self, what: int) -> float:
        """Return a time, or 0 if it is not decided yet."""
        return self._numbers[what]

    def decide(self, what: int, now: float) -> None:
        """Set a time; only the first call for it has an effect."""
        self._numbers[what] = self._numbers[what] or now

    def post(self, process: int, what: int, value: float) -> None:
        """Publish a value of one process."""
        self._numbers[4 * process + what] = value

    def values(self, what: int) -> list[float]:
        """Return the published value of every process."""
        return list(self._numbers[what::4][: self._processes])
