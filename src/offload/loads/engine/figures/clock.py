"""The monotonic clock of a load process, and conversions between it and the reference clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """A clock that is `ahead_s` of the reference at the reference time `at`.

    From then on it gains `drift` seconds per second. The default is the reference clock itself:
    its conversions return the same number.
    """

    ahead_s: float = 0.0
    drift: float = 0.0
    at: float = 0.0

    def own(self, time: float) -> float:
        """Convert a time of the reference clock to one of this clock."""
        return time + (self.ahead_s + self.drift * (time - self.at))

    def reference(self, time: float) -> float:
        """Convert a time of this clock to one of the reference clock."""
        return self.at + (time - self.ahead_s - self.at) / (1.0 + self.drift)

    @property
    def is_reference(self) -> bool:
        """Whether this is the reference clock itself."""
        return not self.ahead_s and not self.drift


REFERENCE = Clock()
