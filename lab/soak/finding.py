"""The verdict of a soak for each server: whether its resources grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.soak.readings import Totals
from lab.soak.trend import Trend

FLAT, GROWS, UNKNOWN, ENDED = "flat", "grows", "not known", "does not serve"
MOST_MB = 1.0  # per minute: a server that grows by less is flat


@dataclass(frozen=True)
class Count:
    """Descriptors or threads: their numbers without load, before and after, and their trend."""

    before: int
    after: int
    per_minute: Trend | None

    @property
    def verdict(self) -> str:
        """`flat` if there are not more than before, `grows` if there are and the trend is up.

        If there are more without such a trend, it is `not known`: it may be a single step.
        """
        if self.after <= self.before:
            return FLAT
        return GROWS if self.per_minute is not None and self.per_minute.low > 0 else UNKNOWN


@dataclass(frozen=True)
class Finding:
    """What a server did in a soak.

    `statuses` counts the responses to well-behaved clients, by status ("closed": none), and
    `faults` what happened to the server, by kind. `memory` is in MB per minute. `before` and
    `after` are the totals without load. `serves` is whether it served after the soak.
    """

    server: str
    statuses: Mapping[str, int]
    faults: Mapping[str, int]
    memory: Trend | None
    before: Totals
    after: Totals
    descriptors: Trend | None
    threads: Trend | None
    serves: bool

    @property
    def memory_verdict(self) -> str:
        """Whether memory grows by MOST_MB or more: the interval decides."""
        if self.memory is None:
            return UNKNOWN
        if self.memory.high < MOST_MB:
            return FLAT
        return GROWS if self.memory.low >= MOST_MB else UNKNOWN

    @property
    def open_descriptors(self) -> Count:
        """The open descriptors of all processes."""
        return Count(self.before.descriptors, self.after.descriptors, self.descriptors)

    @property
    def running_threads(self) -> Count:
        """The threads of all processes."""
        return Count(self.before.threads, self.after.threads, self.threads)

    @property
    def verdict(self) -> str:
        """`does not serve`, else the worst verdict: `grows`, `not known` or `flat`."""
        if not self.serves:
            return ENDED
        each = self.memory_verdict, self.open_descriptors.verdict, self.running_threads.verdict
        return next((worst for worst in (GROWS, UNKNOWN) if worst in each), FLAT)

    @property
    def is_broken(self) -> bool:
        """Whether its resources grow, or it does not serve."""
        return self.verdict in (GROWS, ENDED)
