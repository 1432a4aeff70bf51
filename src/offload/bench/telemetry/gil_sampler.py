"""Sample a server's GIL from outside, 1,000 times per second, to measure how long it is locked."""

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
from offload.units import percent

EVERY = 0.001  # s between two samples
LATE_S = 0.0002  # s after its due time, from which a sample is late; 0.02 to 0.1 ms are usual
LATE = 0.25  # maximum share of late samples in a window; with more its utilisation is unknown
TOO_LATE = "of the GIL samples were late: no core was free for the sampler"  # after a share
NO_SAMPLE = "no GIL sample in the window"


@dataclass(frozen=True)
class Utilisation:
    """The share of a window in which the GIL was locked, from 0 to 1, and its 95 % interval.

    The interval accounts for the autocorrelation of the `samples`. `late` is the share of samples
    that were late or missing because no core was free. Their values are unknown, so the interval
    is widened by this share. `switches` is the number of times that the GIL passed from one thread
    to another. `hold_p75_s` is the 75th percentile of hold times, weighted by time; None for
    several GILs. If `share` is None, `why` is the reason in one line.
    """

    share: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    late: float | None = None
    switches: int | None = None
    hold_p75_s: float | None = None
    why: str | None = None


class GilSampler:
    """Sample the GILs of the server that reported `facts`, every `every` seconds until `__exit__`.

    The server is neither stopped nor slowed down, because the kernel copies 16 bytes from it. Each
    sample is at a random time within its interval of `every` seconds, so that a periodic server
    causes no aliasing. A sample takes 26 bytes of memory. `cpu_s` is the CPU time of the sampler.
    """

    def __init__(self, facts: Mapping[str, object], every: float = EVERY) -> None:
        self._every = every
        self._times = array("d")
        self._locked = array("H")
        self._switches = array("Q")
        self._late = array("L")
        self._why: str | None = None
        self._gils = 0
        self._is_stopped = False
        self._thread = threading.Thread(
            target=self._sample_until_stopped, args=(facts,), daemon=True
        )
        self.cpu_s = 0.0

    def __enter__(self) -> GilSampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopped = True
        self._thread.join()

    @property
    def is_running(self) -> bool:
        """Whether sampling continues; it ends early if a GIL can no longer be read."""
        return self._thread.is_alive()

    def between(self, began: float | None, ended: float | None) -> Utilisation:
        """Return the utilisation in a window of time.monotonic(); the mean of several GILs.

        If `began` or `ended` is None, use all samples.
        """
        if began is None or ended is None:
            began, ended = (self._times[0], self._times[-1]) if self._times else (0.0, 0.0)
        return self._utilisation([(began, ended)], self._gils)

    def during(self, windows: Iterable[tuple[float, float]]) -> Utilisation:
        """Return the share of the total time of `windows` in which at least one GIL was locked."""
        return self._utilisation(list(windows), 1)

    def _utilisation(self, windows: list[tuple[float, float]], gils: int) -> Utilisation:
        values: list[float] = []
        switches = late_count = 0
        expected, hold_s = 0.0, None
        for began, ended in windows:
            if self._why is not None and (not self._times or self._times[-1] < ended):
                return Utilisation(why=self._why)
            expected += (ended - began) / self._every
            first, last = bisect_left(self._times, began), bisect_right(self._times, ended) - 1
            if first <= last:
                values += [min(1.0, count / gils) for count in self._locked[first : last + 1]]
                late_count += sum(self._late[first : last + 1])
                switches += self._switches[last] - self._switches[first]
                late_count += max(0, int((ended - self._times[last]) / self._every) - 1)
                if len(windows) == self._gils == 1:
                    hold_s = self._hold_s(slice(first, last + 1))
        if not values:
            return Utilisation(why=self._why or NO_SAMPLE)
        share, low, high = autocorrelation.share_interval(values)
        late = late_count / max(len(values), expected)
        if late > LATE:
            return Utilisation(late=round(late, 4), why=f"{percent(late)} {TOO_LATE}")
        low, high = max(0.0, low - late), min(1.0, high + late)
        share, low, high, late = (round(value, 4) for value in (share, low, high, late))
        return Utilisation(share, low, high, len(values), late, switches, hold_s)

    def _hold_s(self, samples: slice) -> float | None:
        columns = (self._times[samples], self._locked[samples], self._switches[samples])
        return hold_times.hold_quantile_s(*columns, self._every)

    def _sample_until_stopped(self, facts: Mapping[str, object]) -> None:
        try:
            thread_scheduling.request_short_slice()
            prctl.sleep_exactly()
            gils = gil_reader.gil_addresses(facts)
            self._gils = len(gils)
            self._sample(Reader(gils))
        except Unavailable as error:
            self._why = str(error)
        self.cpu_s = time.thread_time()

    def _sample(self, reader: Reader) -> None:
        rng = random.Random()  # noqa: S311 - no secret; the shared generator may be seeded
        start, slot = time.monotonic(), 0
        while not (self._is_stopped and self._times):
            due = start + (slot + rng.random()) * self._every
            if (pause := due - time.monotonic()) > 0:
                time.sleep(pause)
            at = time.monotonic()
            locked, switches = reader.read()
            self._locked.append(locked)
            self._switches.append(switches)
            now = int((at - start) / self._every)
            self._late.append((at - due > LATE_S) + max(0, now - slot - 1))
            self._times.append(at)  # last: a sample counts only when it is complete
            slot = max(slot + 1, now)
