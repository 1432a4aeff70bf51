"""The truth about a function: every strategy at every size of a grid, measured in blocks.

The grid is larger than a block. All blocks of a function share its loop, and the rates of different
blocks are compared by their ratios to the loop in the same round, so that changes of the machine
between blocks cancel.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lab import corpus
from offload.bench.advice import certainty, strategies
from offload.bench.advice.strategies import STRATEGIES, Size, size_of
from offload.bench.analysis import comparison, disturbance
from offload.bench.planning import plan as plans
from offload.bench.planning.blocks import MOST, Block
from offload.bench.planning.plan import Plan
from offload.bench.records.record import Record
from offload.bench.records.run_records import RunRecords, by_round
from offload.bench.stats import paired_test, sequential
from offload.bench.stats.paired_test import DISTURBED, Verdict
from offload.suites import Case

SUITE = "check_advice"
ROUNDS = 4
TIMES_CORES = (1, 2, 4, 8)  # workers per core; threads have a size with one per user, too
LOOP: Size = ("loop", 1)


@dataclass(frozen=True)
class Truth:
    """The measured rates of one function in requests/s, by strategy and size."""

    task: str
    windows: Mapping[Size, Sequence[Record]]

    @property
    def rates(self) -> dict[Size, float]:
        """The rates that are known: the ratio to the loop times the loop's mean rate."""
        loops = by_round(self.windows.get(LOOP, ()), comparison.rate_of).values()
        loop_rate = statistics.geometric_mean(loops) if loops else 1.0
        relative = {size: self.relative(size).values() for size in self.windows}
        return {
            size: loop_rate * statistics.geometric_mean(found)
            for size, found in relative.items()
            if found
        }

    def relative(self, size: Size) -> dict[int, float]:
        """Return the rate of a size over that of the loop in the same block, by round.

        If the loop has no rate, return the rate itself.
        """
        own = by_round(self.windows[size], comparison.rate_of)
        loop = by_round(self.windows.get(LOOP, ()), comparison.rate_of)
        known = {which: value for which, value in own.items() if which in loop or not loop}
        return {which[2] or 0: value / loop.get(which, 1.0) for which, value in known.items()}

    @property
    def best(self) -> Size:
        """The size with the highest rate."""
        rates = self.rates
        return max(rates, key=lambda size: rates[size])

    def nearest(self, size: Size) -> Size | None:
        """Return the measured size of the same strategy whose number of workers is nearest."""
        strategy, workers = size
        known = [each for each in self.rates if each[0] == strategy]
        return min(known, key=lambda each: _distance(each[1], workers), default=None)

    def compare(self, size: Size) -> Verdict:
        """Compare a size with the best one; above a ratio of 1 it is faster."""
        pairs = self.pairs(self.best, size)
        found = paired_test.compare(pairs, sequential.QUICK.level, comparison.ROUGH)
        if disturbance.between(self.windows[self.best], self.windows[size]):
            return replace(found, outcome=DISTURBED)
        return found

    @property
    def is_tie(self) -> bool:
        """Whether another strategy may be as fast as the best one; answers use the same rule."""
        verdicts = [self.compare(size) for size in self.rates if size[0] != self.best[0]]
        return any(certainty.is_tie(verdict, verdict.ratio) for verdict in verdicts)

    def pairs(self, one: Size, other: Size) -> list[tuple[float, float]]:
        """Return the relative rates of two sizes, for each round in which both have one."""
        first, second = self.relative(one), self.relative(other)
        return [(first[number], second[number]) for number in first if number in second]


def grid(cores: int, users: int) -> list[Size]:
    """Return every strategy at every size, the loop first."""
    found: list[Size] = []
    for strategy in STRATEGIES:
        sizes = {1} if strategy == "loop" else {n * cores for n in TIMES_CORES}
        if strategy == "threads":
            sizes |= {users}
        found += [(strategy, count) for count in sorted(sizes) if count <= max(users, cores)]
    return found


def plan(tasks: Sequence[str], cores: int, users: int) -> Plan:
    """Return the plan of all tasks; the blocks of a task share its loop."""
    cases: list[Case] = []
    blocks: list[Block] = []
    for task in tasks:
        # each size has its own users here: 25 users of one slow worker would take minutes
        own = [cases_of(task, [size], users)[0] for size in grid(cores, users)]
        first = len(cases)
        others = [*range(first + 1, first + len(own))]
        for start in range(0, len(others), MOST - 1):
            blocks.append(Block((first, *others[start : start + MOST - 1])))
        cases += own
    return Plan(
        SUITE, tuple(cases), plans.new_seed(), None, True, blocks=tuple(blocks), rounds=ROUNDS
    )


def of_records(planned: Plan, records: Sequence[Record]) -> Iterator[Truth]:
    """Yield the truth about each task of a plan that has at least one rate."""
    run = RunRecords(records)
    windows: dict[str, dict[Size, Sequence[Record]]] = {}
    for place, case in enumerate(planned.cases):
        windows.setdefault(case.task, {})[size_of(case)] = run.at(place).windows()
    for task, own in windows.items():
        if (found := Truth(task, own)).rates:
            yield found


def short_name(task: str) -> str:
    """Return a function's module in the corpus and its name."""
    return task.rpartition(".")[2]


def cases_of(task: str, sizes: Sequence[Size], users: int) -> list[Case]:
    """Return the cases that serve a task by strategies of these sizes, under the same load.

    As in an answer, all have as many users as the largest size needs.
    """
    is_coroutine = corpus.entries()[task].is_coroutine
    most = max(workers for _, workers in sizes)
    same = strategies.saturating_users(users, most, is_coroutine)
    return [Case(size[0], task, users=same, settings=strategies.settings(size)) for size in sizes]


def _distance(one: int, other: int) -> float:
    return max(one, other) / min(one, other)
