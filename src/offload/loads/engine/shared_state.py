"""Shared state: numbers in shared memory that synchronize the processes of one load."""

from __future__ import annotations

import mmap

LOAD_START, WINDOW_START, WINDOW_END, LOAD_END = range(4)  # times, set once; 0 until then
READY, WARM, COMPLETED, SETTLED = range(4, 8)  # what each process publishes about itself


class SharedState:
    """State shared with forked children. The first process decides, and it decides on times.

    It does not matter when the others read a time, since every request is kept with its times.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._numbers = memoryview(mmap.mmap(-1, 8 * (4 + 4 * processes))).cast("d")

    def time(self, what: int) -> float:
        """Return a time that was decided, or 0."""
        return self._numbers[what]

    def decide(self, what: int, now: float) -> None:
        """Decide on a time; only the first decision has an effect."""
        self._numbers[what] = self._numbers[what] or now

    def post(self, process: int, what: int, value: float) -> None:
        """Publish a value of one process."""
        self._numbers[4 * process + what] = value

    def values(self, what: int) -> list[float]:
        """Return the published value of every process."""
        return list(self._numbers[what::4][: self._processes])
