"""The GIL meter: it looks a thousand times a second, from outside, who has the GIL locked."""

from __future__ import annotations

import random
import threading
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from offload import prctl
from offload.bench.stats import autocorrelation, hold_times
from offload.bench.telemetry import gil_reader, thread_scheduling
from offload.bench.telemetry.gil_reader import Reader, Unavailable

EVERY = 0.001  # s between two looks
LATE_S = 0.0002  # s after its time, from which a look is late: 0.02 to 0.1 are usual
LATE = 0.25  # of the looks, beyond which nothing is said of a window
TOO_LATE = "of the looks came late: no core was free for them"
NO_SAMPLE = "nothing was looked at in the window"


@dataclass(frozen=True)
class Utilisation:
    """The share of a window in which the GIL was locked, from 0 to 1, and its 95 % interval.

    `samples` is how often it was looked at: they resemble their neighbours, which the interval
    counts in. A share `late` came late or not at all, when no core was free: what they missed may
    have been otherwise, by which the interval is wider. `switches` is how often the GIL passed from
    one thread to another, and in three quarters of the time under the GIL a hold is no longer than
    `hold_p75_s`; of several GILs that is not known. Without a share, `why` says in one line why.
    """

    share: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    late: float | None = None
    switches: int | None = None
    hold_p75_s: float | None = None
    why: str | None = None


class Meter:
    """Look at the GILs of the server that told `facts`, every `every` seconds until `__exit__`.

    The server is not stopped and does not notice: the kernel copies 16 bytes. The looks are at a
    random moment in each `every` seconds, so that no rhythm of the server's is missed. They are
    kept, 26 bytes each. `cpu_s` is the CPU time they took.
    """

    def __init__(self, facts: Mapping[str, object], every: float = EVERY) -> None:
        self._every = every
        self._times = array("d")
        self._locked = array("H")
        self._switches = array("Q")
        self._late = array("L")
        self._why: str | None = None
        self._gils = 0
        self._over = False
        self._thread = threading.Thread(target=self._look_until_over, args=(facts,), daemon=True)
        self.cpu_s = 0.0

    def __enter__(self) -> Meter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join()

    @property
    def is_looking(self) -> bool:
        """Say whether it goes on: it ends early when there is nothing more to be read."""
        return self._thread.is_alive()

    def between(self, began: float | None, ended: float | None) -> Utilisation:
        """Give the utilisation in a window of time.monotonic(), of several GILs their mean.

        For None it is that of all the time there was.
        """
        if began is None or ended is None:
            began, ended = (self._times[0], self._times[-1]) if self._times else (0.0, 0.0)
        return self._utilisation([(began, ended)], self._gils)

    def during(self, windows: Iterable[tuple[float, float]]) -> Utilisation:
        """Give the share of several windows together in which any of the GILs was locked."""
        return self._utilisation(list(windows), 1)

    def _utilisation(self, windows: list[tuple[float, float]], gils: int) -> Utilisation:
        values: list[float] = []
        switches = came_late = 0
        asked, hold_s = 0.0, None
        for began, ended in windows:
            if self._why is not None and (not self._times or self._times[-1] < ended):
                return Utilisation(why=self._why)
            asked += (ended - began) / self._every
            first, last = bisect_left(self._times, began), bisect_right(self._times, ended) - 1
            if first <= last:
                values += [min(1.0, count / gils) for count in self._locked[first : last + 1]]
                came_late += sum(self._late[first : last + 1])
                switches += self._switches[last] - self._switches[first]
                if len(windows) == self._gils == 1:
                    hold_s = self._hold_s(slice(first, last + 1))
        if not values:
            return Utilisation(why=self._why or NO_SAMPLE)
        share, low, high = autocorrelation.share_interval(values)
        late = came_late / max(len(values), asked)
        if late > LATE:
            return Utilisation(why=f"{late:.0%} {TOO_LATE}")
        low, high = max(0.0, low - late), min(1.0, high + late)
        share, low, high, late = (round(value, 4) for value in (share, low, high, late))
        return Utilisation(share, low, high, len(values), late, switches, hold_s)

    def _hold_s(self, looks: slice) -> float | None:
        looked = (self._times[looks], self._locked[looks], self._switches[looks])
        return hold_times.hold_quantile_s(*looked, self._every)

    def _look_until_over(self, facts: Mapping[str, object]) -> None:
        try:
            thread_scheduling.ask_for_short()
            prctl.sleep_exactly()
            words = gil_reader.told(facts)
            self._gils = len(words)
            self._look(Reader(words))
        except Unavailable as error:
            self._why = str(error)
        self.cpu_s = time.thread_time()

    def _look(self, reader: Reader) -> None:
        rng = random.Random()  # noqa: S311 - no secret; its own, for others may have a seed
        begin, slot = time.monotonic(), 0
        while not (self._over and self._times):
            due = begin + (slot + rng.random()) * self._every
            if (pause := due - time.monotonic()) > 0:
                time.sleep(pause)
            at = time.monotonic()
            locked, switches = reader.read()
            self._locked.append(locked)
            self._switches.append(switches)
            now = int((at - begin) / self._every)
            self._late.append((at - due > LATE_S) + max(0, now - slot - 1))
            self._times.append(at)  # last: by then all of this look can be read
            slot = max(slot + 1, now)
