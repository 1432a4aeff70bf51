"""A series: counters read again and again, whose growth between two moments is asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping


class Series:
    """Readings of growing counters by time, in seconds of time.monotonic()."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._readings: list[Mapping[str, float | None]] = []

    def add(self, time: float, reading: Mapping[str, float | None]) -> None:
        """Add the next reading."""
        self._times.append(time)
        self._readings.append(reading)

    @property
    def seconds(self) -> float:
        """The time between the first reading and the last."""
        return self._times[-1] - self._times[0] if self._times else 0.0

    def growth(self, key: str, window: tuple[float, float] | None = None) -> float | None:
        """Give by how much a counter grew in a window, or in all, in the counter's unit.

        Between two readings it is taken to have grown evenly; beyond the ends nothing is known.
        None when a reading is missing, or when the counter fell.
        """
        if not self._times:
            return None
        began, ended = window or (self._times[0], self._times[-1])
        before, after = self._at(key, began), self._at(key, ended)
        return None if before is None or after is None or after < before else after - before

    def _at(self, key: str, time: float) -> float | None:
        place = bisect_right(self._times, time)
        if place == 0 or place == len(self._times):
            return self._readings[min(place, len(self._times) - 1)].get(key)
        earlier, later = self._readings[place - 1].get(key), self._readings[place].get(key)
        if earlier is None or later is None:
            return None
        passed = (time - self._times[place - 1]) / (self._times[place] - self._times[place - 1])
        return earlier + passed * (later - earlier)
