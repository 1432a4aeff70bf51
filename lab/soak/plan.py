"""The settings of a soak, and the times that follow from its duration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from offload.errors import UsageError

SERVERS = ("sync", "loop", "threads", "processes", "pipes", "pebble", "prefork")
MIXED = "mixed"  # the default task

EVERY_S, READINGS_AT_LEAST = 1.0, 40  # s between two readings; more often in a short soak
WARM_UP, MOST_WARM_UP_S = 1 / 2, 60.0  # share of the soak, and s
START, MOST_START_S = 1 / 10, 60.0  # from the start of a process until its growth counts
KILL_S, KILLS_AT_LEAST = 40.0, 3  # mean s between two kills of a server; more often in a short soak


@dataclass(frozen=True)
class Plan:
    """The settings of a soak; `task` is MIXED, or any task, into which no failures are injected."""

    seconds: float
    servers: Sequence[str]
    task: str
    seed: int

    @property
    def every_s(self) -> float:
        """The time between two readings."""
        return min(EVERY_S, self.seconds / READINGS_AT_LEAST)

    @property
    def warm_up_s(self) -> float:
        """The time with load and faults before the first reading that counts."""
        return min(MOST_WARM_UP_S, WARM_UP * self.seconds)

    @property
    def kill_s(self) -> float:
        """The mean time between two kills of a server."""
        return min(KILL_S, self.seconds / KILLS_AT_LEAST)

    @property
    def start_s(self) -> float:
        """The time from the start of a process until its growth counts."""
        return min(MOST_START_S, START * self.seconds)


def check(servers: Sequence[str]) -> None:
    """Raise UsageError for a server that has no promise."""
    for name in servers:
        if name not in SERVERS:
            raise UsageError(
                f"{name[:50]!r} is not one of the servers", f"choose from {', '.join(SERVERS)}"
            )
