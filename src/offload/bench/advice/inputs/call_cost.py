"""What one call of a task costs, without a server: its times, failures and results."""

from __future__ import annotations

from dataclasses import dataclass, replace

PAGE_FAULT_S = 1e-6  # CPU time of a page fault; a guess [virtual machine: 4 to 5 us]
MANY_FAULTS = 0.02  # share of the CPU time, above which page faults matter; a guess
RUNNING = 0.2  # share of the wall time, below which a running time is uncertain; a guess
PARALLEL = 1.2  # mean number of cores of a call, above which it uses several; a guess


@dataclass(frozen=True)
class CallCost:
    """What one call costs: times in s, shares from 0 to 1; None is unknown.

    `wall_s`, `cpu_s` and `queued_s` are means of a call alone: its wall time, its CPU time and its
    wait for a CPU. `variation` is the standard deviation of its wall time over its mean. `hold` is
    the share of the call in which the GIL is locked. `results` is the number of different results.
    `failed` is the share of calls that raised, and `error` the first message. `switches` is how
    often a call got a CPU, and `page_faults` is how often it got a fresh page of memory.
    `connections` is the number of network connections that a call after many others opens; it is
    always unknown for a coroutine.
    """

    wall_s: float
    cpu_s: float
    queued_s: float
    variation: float
    hold: float | None
    body_bytes: int
    results: int
    failed: float
    error: str | None
    switches: float | None = None
    page_faults: float | None = None
    connections: int | None = None

    @property
    def bursts(self) -> float:
        """The number of pieces into which its waits divide the CPU time of a call; at least 1."""
        return max(1.0, self.switches or 1.0)

    @property
    def has_many_page_faults(self) -> bool:
        """Whether page faults take a considerable part of the CPU time."""
        return (self.page_faults or 0.0) * PAGE_FAULT_S > MANY_FAULTS * self.cpu_s

    @property
    def wait_s(self) -> float:
        """The time of a call in which it neither uses nor waits for a CPU, in s."""
        return max(0.0, self.wall_s - self.cpu_s - self.queued_s)

    @property
    def parallelism(self) -> float:
        """The mean number of cores that a call uses; 1.0 unless it clearly uses several.

        The CPU time includes all threads and ended children, so it may exceed the wall time. If a
        call is queued for most of its time, its running time is a small difference with a large
        error. Then only a CPU time above the wall time shows several cores.
        """
        running_s = self.wall_s - self.queued_s
        if running_s < RUNNING * self.wall_s and self.cpu_s <= self.wall_s:
            return 1.0
        return self.cpu_s / running_s if self.cpu_s > PARALLEL * running_s > 0 else 1.0

    @property
    def busy_s(self) -> float:
        """The time of a call in which it uses cores, in s."""
        return self.cpu_s / self.parallelism

    @property
    def held_s(self) -> float:
        """The time for which a call holds the GIL, in s; 0 if it is unknown."""
        return (self.hold or 0.0) * self.wall_s

    def with_cpu_factor(self, factor: float) -> CallCost:
        """Return the cost of calls that need `factor` times the CPU time, but wait as long."""
        wall_s = self.wall_s + (factor - 1) * (self.busy_s + self.queued_s)
        return replace(
            self,
            wall_s=wall_s,
            cpu_s=self.cpu_s * factor,
            queued_s=self.queued_s * factor,
            hold=None if self.hold is None else min(1.0, self.held_s * factor / wall_s),
        )
