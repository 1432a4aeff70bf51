"""The offset of a host's monotonic clock, from round trips with four time stamps.

The machine that measures notes when it sends (1) and when the response arrives (4), the host when
the request arrives (2) and when it responds (3). These are the time stamps of NTP (RFC 5905, 8).
Whatever share of the round trip each direction takes, the estimate ((2 - 1) + (3 - 4)) / 2 differs
from the true offset by at most half of the round trip, (4 - 1) - (3 - 2). So the exchange with the
shortest round trip has the smallest bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offload.loads.engine.figures.clock import Clock

EXCHANGES = 24
DRIFT = 500e-6  # s per s: the largest rate at which NTP slews a clock; it may slew both clocks


@dataclass(frozen=True)
class Exchange:
    """The four time stamps of one round trip, in s: `received` and `replied` are of the host."""

    sent: float
    received: float
    replied: float
    returned: float

    @property
    def round_trip_s(self) -> float:
        """The time on the way in both directions."""
        return (self.returned - self.sent) - (self.replied - self.received)


@dataclass(frozen=True)
class ClockOffset:
    """At the time `at`, a host's clock is ahead of this machine's by `ahead_s` +-`bound_s`."""

    ahead_s: float
    bound_s: float
    at: float

    @property
    def clock(self) -> Clock:
        """The host's clock, if it does not drift."""
        return Clock(self.ahead_s, at=self.at)


def estimate(exchanges: Iterable[Exchange]) -> ClockOffset:
    """Return the offset from the exchange with the shortest round trip."""
    best = min(exchanges, key=lambda each: each.round_trip_s)
    ahead = ((best.received - best.sent) + (best.replied - best.returned)) / 2
    return ClockOffset(ahead, max(0.0, best.round_trip_s / 2), (best.sent + best.returned) / 2)


def between(before: ClockOffset, after: ClockOffset | None) -> Clock:
    """Return the clock of a host during a load: its offset is interpolated.

    Its error in between is at most the larger bound of both.
    """
    if after is None or after.at <= before.at:
        return before.clock
    drift = (after.ahead_s - before.ahead_s) / (after.at - before.at)
    return Clock(before.ahead_s, drift, before.at)


def has_jumped(before: ClockOffset, after: ClockOffset) -> bool:
    """Whether two offsets differ by more than their bounds and the drift of clocks explain."""
    explained = before.bound_s + after.bound_s + 2 * DRIFT * abs(after.at - before.at)
    return abs(after.ahead_s - before.ahead_s) > explained
