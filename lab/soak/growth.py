"""The growth of a server's memory, although its processes are killed and replaced."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.soak import trend
from lab.soak.readings import Identity, Readings, Totals, totals
from lab.soak.trend import Trend

KIB_PER_MB = 1e6 / 1024


@dataclass
class Series:
    """The readings of one server over time.

    `grown_kib` is the sum of the changes of each process's memory since the first reading. A
    process that ends takes its memory with it, and the start of its replacement is no growth. So
    changes count only from `start_s` seconds after the first reading of a process. If processes
    are killed after a short life, the growth is therefore underestimated.
    """

    start_s: float
    at: list[float] = field(default_factory=list)
    grown_kib: list[int] = field(default_factory=list)
    all: list[Totals] = field(default_factory=list)
    _born: dict[Identity, float] = field(default_factory=dict)
    _before: Readings = field(default_factory=dict)

    def add(self, at: float, readings: Readings) -> None:
        """Add the readings at a time in s."""
        change = 0
        for identity, found in readings.items():
            before = self._before.get(identity)
            if before is not None and self.at[-1] - self._born[identity] >= self.start_s:
                change += found.memory_kib - before.memory_kib
        self._born = {identity: self._born.get(identity, at) for identity in readings}
        self._before = readings
        self.at.append(at)
        self.grown_kib.append(change + (self.grown_kib[-1] if self.grown_kib else 0))
        self.all.append(totals(readings))

    def drop_warm_up(self) -> None:
        """Forget the readings so far, except the latest one and the start times of processes."""
        del self.at[:-1], self.grown_kib[:-1], self.all[:-1]

    def memory(self) -> Trend | None:
        """Return the growth of memory in MB per minute; None if there are too few readings."""
        found = trend.fit(self.at, [kib / KIB_PER_MB for kib in self.grown_kib])
        return None if found is None else found.per_minute()

    def descriptors(self) -> Trend | None:
        """Return the trend of open descriptors per minute."""
        found = trend.fit(self.at, [each.descriptors for each in self.all])
        return None if found is None else found.per_minute()

    def threads(self) -> Trend | None:
        """Return the trend of threads per minute."""
        found = trend.fit(self.at, [each.threads for each in self.all])
        return None if found is None else found.per_minute()
