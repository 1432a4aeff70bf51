"""Shared state: numbers in shared memory that synchronize the processes of one load.

Process 0 decides the phases of a load, unless several hosts send it: then the hosts have agreed on
the start and on the window, and each host has its own shared state.
"""

from __future__ import annotations

import math
import mmap
from dataclasses import dataclass

from offload.loads.engine.figures.clock import Clock

LOAD_START, WINDOW_START, WINDOW_END, LOAD_END = range(4)  # times, set once; 0 until then
READY, WARM, COMPLETED, SETTLED = range(4, 8)  # values that each process publishes
AGREED_START, AGREED_END = range(2)  # of the window, behind these values


@dataclass(frozen=True)
class AgreedTimes:
    """When all hosts start a load, and the window that they count, in s of one clock.

    `window_ended` is None for a load with a number of requests: its window is the whole load.
    """

    start: float
    window_started: float
    window_ended: float | None

    def on(self, clock: Clock) -> AgreedTimes:
        """Return the same times, converted from the reference clock to `clock`."""
        ended = None if self.window_ended is None else clock.own(self.window_ended)
        return AgreedTimes(clock.own(self.start), clock.own(self.window_started), ended)


class SharedState:
    """State shared with forked children. Process 0 decides the times of the phases for all.

    Other processes may read these times late, because every request is recorded with its own times.

    With `first` the load is sent by several hosts, which start at an agreed time: `first` is the
    number of the first process of this host among the processes of all hosts.
    """

    def __init__(self, processes: int, first: int | None = None) -> None:
        self.processes = processes
        self.first = first or 0
        self.is_agreed = first is not None
        self._agreed = 4 + 4 * processes
        self._numbers = memoryview(mmap.mmap(-1, 8 * (self._agreed + 2))).cast("d")

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
        return list(self._numbers[what::4][: self.processes])

    def agree(self, times: AgreedTimes) -> None:
        """Set the agreed times; the start last, because the processes wait for it."""
        ended = math.inf if times.window_ended is None else times.window_ended
        self._numbers[self._agreed + AGREED_START] = times.window_started
        self._numbers[self._agreed + AGREED_END] = ended
        self.decide(LOAD_START, times.start)

    def agreed(self, what: int) -> float:
        """Return an agreed time; infinity if the window has no agreed end."""
        return self._numbers[self._agreed + what]
