"""The board: numbers in memory by which the processes of one load agree on its course."""

from __future__ import annotations

import mmap

START, BEGAN, ENDED, OVER = range(4)  # times that are decided once for all, 0 until then
READY, WARM, COMPLETED, SETTLED = range(4, 8)  # what each process posts of itself


class Board:
    """Shared with forked children. The first process decides; what it decides is a time.

    So it does not matter when the others read it, for every request is kept with its times.
    """

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._numbers = memoryview(mmap.mmap(-1, 8 * (4 + 4 * processes))).cast("d")

    def time(self, what: int) -> float:
        """Give a time that was decided, or 0."""
        return self._numbers[what]

    def decide(self, what: int, now: float) -> None:
        """Decide a time; the first decision counts."""
        self._numbers[what] = self._numbers[what] or now

    def post(self, process: int, what: int, value: float) -> None:
        """Say how far a process is."""
        self._numbers[4 * process + what] = value

    def posted(self, what: int) -> list[float]:
        """Give what every process posted."""
        return list(self._numbers[what::4][: self._processes])
