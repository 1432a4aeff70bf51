"""Samples: start, end and outcome of every request of a load."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from time import monotonic

from offload.loads.engine.figures.clock import REFERENCE, Clock


def _doubles() -> array[float]:
    return array("d")


@dataclass
class Samples:
    """The requests of one load process; times in seconds of `clock`, its CLOCK_MONOTONIC.

    `started`, `sent` and `ended` describe completed requests, in the order of their ends; a
    request is sent when it is connected. `failed` has the kind, start and end of failed requests,
    `unfinished` the starts of requests in flight at `over`, the end of the load. In an open loop
    `due` has the scheduled starts of requests, `late` the delays of the tool, and `waited` the
    times for which they then waited for a connection. `requests` is the number of all requests,
    which is counted when they start; None if it is unknown. `busy` is the share of one core that
    the process used within the window. `problem` is the reason of an early end.
    """

    started: array[float] = field(default_factory=_doubles)
    sent: array[float] = field(default_factory=_doubles)
    ended: array[float] = field(default_factory=_doubles)
    failed: list[tuple[str, float, float]] = field(default_factory=list)
    unfinished: list[float] = field(default_factory=list)
    due: array[float] = field(default_factory=_doubles)
    late: array[float] = field(default_factory=_doubles)
    waited: array[float] = field(default_factory=_doubles)
    requests: int | None = None
    over: float = field(default_factory=lambda: monotonic())  # noqa: PLW0108 - not captured
    busy: float | None = None
    problem: str | None = None
    clock: Clock = REFERENCE

    @property
    def unaccounted(self) -> int:
        """The number of requests whose end is in no list; any other value than 0 is a defect."""
        if self.requests is None:
            return 0
        return self.requests - len(self.ended) - len(self.failed) - len(self.unfinished)
