"""The plan of a run: its cases, and how they are measured."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from offload.bench.analysis.gate import GateTerms, Sides
from offload.bench.analysis.latency_capacity import LatencyTarget
from offload.bench.planning.blocks import Block
from offload.bench.records.record import Record
from offload.bench.records.run_records import RunRecords
from offload.bench.stats import sequential
from offload.suites import Case

GATE = "gate"  # `suite` of the runs of a gate
CAPACITY = "capacity"  # `suite` of the runs with a latency target
BUDGET_COUNTS = (10, 14)  # rounds of additional analyses in a run with a time budget


@dataclass(frozen=True)
class Plan:
    """The `cases` of a run in the order of the table, and how they are measured.

    Each of `blocks` is measured with `builtin` in rounds, whose order `seed` determines. A block
    with pairs ends when the ratios of all pairs have verdicts; if `budget_s` has time left, blocks
    with wide intervals have more rounds. A block without pairs ends when the half-widths of all
    rates are within `target`, a share (None: 2 %; 5 % with `quick` and for slow cases). With
    `rounds` every block has exactly this number of rounds. A round that would exceed `budget_s`
    seconds of measuring is not started (None: unlimited). With `gate` each pair is the baseline and
    the same case now, and a block ends when its gate is decided. After all rounds each case has one
    long run with `driver` (None: no long runs).
    With `latency` the only case has no blocks: its capacity under this target is searched by open
    loops.
    `missing` is the reason why `driver` is not the published tool; None if it is, or if the user
    chose it.
    """

    suite: str
    cases: tuple[Case, ...]
    seed: int
    driver: str | None
    quick: bool = False
    target: float | None = None
    missing: str | None = None
    blocks: tuple[Block, ...] = ()
    budget_s: float | None = None
    rounds: int | None = None
    gate: GateTerms | None = None
    latency: LatencyTarget | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of rounds after which a block is analysed and may end."""
        counts = self.design_counts
        is_fixed = self.budget_s is None or self.rounds is not None or self.gate is not None
        more = () if is_fixed else BUDGET_COUNTS
        return *counts, *(count for count in more if count > counts[-1])

    @property
    def design_counts(self) -> tuple[int, ...]:
        """The counts of the sequential design alone, without BUDGET_COUNTS."""
        if self.gate is not None:
            return sequential.GATE.counts
        return sequential.design(self.quick).counts if self.rounds is None else (self.rounds,)

    def stopping_level(self, count: int) -> float:
        """Return the level at which the analysis after `count` rounds may end a block."""
        design = sequential.design(self.quick)
        return design.early if count < self.counts[-1] else design.level

    @property
    def is_masked(self) -> bool:
        """Whether it was read from a file that lacks a value or a body of its requests."""
        return any(case.request is not None and case.request.is_masked for case in self.cases)

    @property
    def cases_now(self) -> tuple[Case, ...]:
        """The cases of a gate as they are now: the last one of each block."""
        return tuple(self.cases[block.cases[-1]] for block in self.blocks)

    def sides(self, records: Sequence[Record]) -> list[Sides]:
        """Return for each case of a gate its windows of the baseline and its windows now."""
        own = RunRecords(records)
        return [
            Sides(*(own.at(place).windows() for place in (block.cases[0], block.cases[-1])))
            for block in self.blocks
        ]

    def cases_of(self, block: int) -> tuple[Case, ...]:
        """Return the cases of a block, by its number."""
        return tuple(self.cases[place] for place in self.blocks[block].cases)

    def title(self, block: int) -> str:
        """Return a short name of a block: what its cases have in common."""
        cases = self.cases_of(block)
        if len(cases) == 1:
            return cases[0].name
        tasks = list(dict.fromkeys(case.task for case in cases))
        return f"{len(cases)} servers with {tasks[0]}{', ...' if tasks[1:] else ''}"


def new_seed() -> int:
    """Return a random seed for a run."""
    return random.SystemRandom().randrange(1 << 32)
