"""Time series of counters: their increase between two times."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping


class CounterSeries:
    """Readings of increasing counters by time, in seconds of time.monotonic()."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._readings: list[Mapping[str, float | None]] = []

    def add(self, time: float, reading: Mapping[str, float | None]) -> None:
        """Add the next reading."""
        self._times.append(time)
        self._readings.append(reading)

    @property
    def seconds(self) -> float:
        """The time between the first and the last reading."""
        return self._times[-1] - self._times[0] if self._times else 0.0

    def increase(self, key: str, window: tuple[float, float] | None = None) -> float | None:
        """Return the increase of a counter within a window, or in total, in the counter's unit.

        Values are interpolated linearly between two readings, and clamped to the first and last
        reading. None if a reading is missing or the counter decreased.
        """
        if not self._times:
            return None
        start, end = window or (self._times[0], self._times[-1])
        before, after = self._value_at(key, start), self._value_at(key, end)
        return None if before is None or after is None or after < before else after - before

    def _value_at(self, key: str, time: float) -> float | None:
        index = bisect_right(self._times, time)
        if index == 0 or index == len(self._times):
            return self._readings[min(index, len(self._times) - 1)].get(key)
        earlier, later = self._readings[index - 1].get(key), self._readings[index].get(key)
        if earlier is None or later is None:
            return None
        fraction = (time - self._times[index - 1]) / (self._times[index] - self._times[index - 1])
        return earlier + fraction * (later - earlier)
