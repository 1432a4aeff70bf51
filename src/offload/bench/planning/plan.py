"""The plan of a run: its cases, its blocks, and the rule that says what is measured next.

    plan + records so far -> rule.next_step -> a round, a long run or an open loop -> more records
                                            -> None: the run is done

The rule answers from the plan and the records alone, so a resumed run continues as an
uninterrupted one. First every block has one round, in random order; then every block has its second
round, in another order, and so on. So changes of the machine affect all blocks alike, and when the
time budget ends all blocks have the same number of rounds. When all blocks are finished, every case
has its long run. `Fixed`, `Sequential` and `Gate` differ in when a block is finished.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from offload.bench.analysis import gate, latency_capacity
from offload.bench.analysis.gate import GateTerms
from offload.bench.analysis.latency_capacity import LatencyTarget
from offload.bench.planning import round_times
from offload.bench.planning.block_state import BlockState, is_final
from offload.bench.planning.blocks import Block
from offload.bench.stats import sequential
from offload.engine.record import LONG, WINDOW, Record
from offload.suites import Case

GATE = "gate"  # `suite` of the runs of a gate
CAPACITY = "capacity"  # `suite` of the runs with a latency target
BUDGET_COUNTS = (10, 14)  # rounds of additional analyses in a run with a time budget
LONG_RUN_OVERHEAD_S = 2.0  # mean time of a long run's start, warm-up and stop


@dataclass(frozen=True)
class Round:
    """A round of a block: the index of the block, the number of the round, and 2 for a retry."""

    block: int
    number: int
    attempt: int = 1


@dataclass(frozen=True)
class LongRun:
    """A contiguous run of one case with the plan's driver."""

    place: int


@dataclass(frozen=True)
class OpenLoop:
    """A load of the only case at a fixed rate, for at least `seconds`, in a round of a search."""

    number: int
    rate: float
    arrivals: str
    seconds: float


Step = Round | LongRun | OpenLoop
Records = Sequence[Record]
States = Mapping[int, BlockState]  # by the indexes of the blocks


@dataclass(frozen=True)
class Plan:
    """The `cases` of a run in the order of the table, and how they are measured.

    Each of `blocks` is measured with `builtin` in rounds, whose order `seed` determines, until
    `rule` ends it. Then each case has one long run with `driver` (None: no long runs). `missing` is
    the reason why `driver` is not the published tool; None if it is, or if the user chose it.
    """

    suite: str
    cases: tuple[Case, ...]
    seed: int
    driver: str | None
    rule: StoppingRule
    missing: str | None = None
    blocks: tuple[Block, ...] = ()

    def next_step(self, records: Records) -> Step | None:
        """Return the step that is due, None if the run is done."""
        return self.rule.next_step(self, records)

    def states(self, records: Iterable[Record]) -> list[BlockState]:
        """Return the state of each block."""
        own: dict[int | None, list[Record]] = {}
        for record in records:
            own.setdefault(record.trial.block, []).append(record)
        return [BlockState(block, own.get(n, [])) for n, block in enumerate(self.blocks)]

    def long_runs_due(self, records: Records) -> list[int]:
        """Return the places of the cases without a long run, in the order of the table.

        Cases that could not be measured at all are not due.
        """
        if self.driver is None:
            return []
        done = {record.trial.place for record in records if record.trial.kind == LONG}
        unavailable = {record.trial.place for record in records if record.is_unavailable}
        measured = {record.trial.place for record in records if record.result.rate}
        done |= unavailable - measured
        return [place for place in range(len(self.cases)) if place not in done]

    def long_runs_s(self, records: Records) -> float:
        """Return the expected time of all due long runs in s."""
        due = self.long_runs_due(records)
        return sum(self.cases[place].seconds + LONG_RUN_OVERHEAD_S for place in due)

    @property
    def is_masked(self) -> bool:
        """Whether it was read from a file that lacks a value or a body of its requests."""
        return any(case.request is not None and case.request.is_masked for case in self.cases)

    @property
    def cases_now(self) -> tuple[Case, ...]:
        """The cases of a gate as they are now: the last one of each block."""
        return tuple(self.cases[block.cases[-1]] for block in self.blocks)

    def title(self, block: int) -> str:
        """Return a short name of a block: what its cases have in common."""
        cases = [self.cases[place] for place in self.blocks[block].cases]
        if len(cases) == 1:
            return cases[0].name
        tasks = list(dict.fromkeys(case.task for case in cases))
        return f"{len(cases)} servers with {tasks[0]}{', ...' if tasks[1:] else ''}"


@dataclass(frozen=True, kw_only=True)
class StoppingRule(ABC):
    """What is measured next in a run, and when it is done.

    A round that is expected to exceed `budget_s` seconds of measuring is not started (None:
    unlimited). Records keep `quick`, the design whose level their intervals have, and `target`, the
    half-width of rates that is wanted, a share (None: 2 %; 5 % with `quick` and for slow cases).
    """

    LOADS: ClassVar[str] = "rounds of short loads"
    quick: bool = False
    target: float | None = None
    budget_s: float | None = None

    @property
    @abstractmethod
    def counts(self) -> tuple[int, ...]:
        """The numbers of rounds after which a block is analysed and may end."""

    @property
    def has_short_rounds(self) -> bool:
        """Whether each round should be short, because the time is enough for a few of them only.

        The t interval of 3 rounds is 3.7 times their SD, that of 7 rounds 1.1 times: more rounds
        narrow it more than second windows do.
        """
        return self.quick and self.budget_s is not None

    def next_step(self, plan: Plan, records: Records) -> Step | None:
        """Return the first due round that fits into the time budget, or else a due long run.

        No round follows a long run, even if long runs were shorter than expected.
        """
        has_long_run = any(record.trial.kind == LONG for record in records)
        left_s = self.left_for_rounds_s(plan, records)
        if not has_long_run and (due := self.due(plan, records, left_s)):
            return due[0]
        places = plan.long_runs_due(records)
        return LongRun(places[0]) if places else None

    def due(self, plan: Plan, records: Records, left_s: float | None = None) -> list[Round]:
        """Return the rounds that are due before the next analysis of any block, in their order.

        Their figures determine whether there are more. With `left_s` only those of blocks whose
        round is expected to end within this time.
        """
        times, states = round_times.expected(plan.blocks, records), plan.states(records)
        fitting = (n for n, time in enumerate(times) if left_s is None or time <= left_s)
        unfinished = {n: states[n] for n in fitting if not self.is_finished(plan, states, n)}
        return self._due(plan, unfinished, times)

    @abstractmethod
    def is_finished(self, plan: Plan, states: Sequence[BlockState], number: int) -> bool:
        """Whether a block needs no further round."""

    def places(self, plan: Plan, each: Round, records: Records) -> list[int]:
        """Return the places of the cases that a round measures, without hopeless ones."""
        return [*plan.states(records)[each.block].windows]

    def may_retry(self, plan: Plan, records: Records, each: Round) -> bool:
        """Whether a round has a measurable case, and its retry fits beside all due rounds."""
        if not self.places(plan, each, records):
            return False
        left_s = self.left_for_rounds_s(plan, records)
        if left_s is None:
            return True
        times = round_times.expected(plan.blocks, records)
        others_s = sum(times[other.block] for other in self.due(plan, records))
        retry_s = round_times.of_round(plan.blocks, records, each.block, each.number)
        return retry_s + others_s <= left_s

    def left_for_rounds_s(self, plan: Plan, records: Records) -> float | None:
        """Return the time in s for rounds, without that of due long runs; None if unlimited."""
        if self.budget_s is None:
            return None
        rounds_s = sum(round_times.measured(plan.blocks, records).values())
        others = (record.trial for record in records if record.trial.kind != WINDOW)
        others_s = sum(sum(trial.phases.values()) for trial in others)
        return self.budget_s - (rounds_s + others_s) - plan.long_runs_s(records)

    def left_s(self, plan: Plan, records: Records, retry_s: float = 0.0) -> float:
        """Return the remaining time in s: at least a retry, all due rounds, and all long runs."""
        times = round_times.expected(plan.blocks, records)
        rounds_s = retry_s + sum(times[each.block] for each in self.due(plan, records))
        if (left_s := self.left_for_rounds_s(plan, records)) is not None:
            rounds_s = min(rounds_s, max(0.0, left_s))
        return rounds_s + plan.long_runs_s(records)

    def expected_s(self, plan: Plan) -> tuple[float, float]:
        """Return the shortest and the longest expected time of a new run in s."""
        round_s, long_s = sum(round_times.expected(plan.blocks, [])), plan.long_runs_s([])
        most_s = math.inf if self.budget_s is None else self.budget_s
        first, last = self.counts[0], self.counts[-1]
        return min(most_s, first * round_s + long_s), min(most_s, last * round_s + long_s)

    def _due(self, plan: Plan, states: States, times: Sequence[float]) -> list[Round]:
        """Return the due rounds of blocks that are not finished."""
        return _until_next(self.counts, states, plan.seed)


@dataclass(frozen=True, kw_only=True)
class Fixed(StoppingRule):
    """Every block has exactly this number of rounds."""

    rounds: int

    @property
    def counts(self) -> tuple[int, ...]:
        return (self.rounds,)

    def is_finished(self, plan: Plan, states: Sequence[BlockState], number: int) -> bool:
        state = states[number]
        return state.is_hopeless or len(state.rounds) >= self.rounds


@dataclass(frozen=True, kw_only=True)
class Sequential(StoppingRule):
    """A block ends at an analysis that decides it, or after the last one.

    A block with pairs is decided if each pair has a verdict at the stopping level of the design,
    and a block without pairs if the half-width of every rate is within the target. With a time
    budget, a block of several cases without pairs is never decided by its rates: it uses all of the
    budget. If a case was loaded for too long, and if the cases run apart, the next analysis ends
    the block. If time remains after all blocks are decided, more rounds follow: those that narrow a
    wide interval most per second.
    """

    @property
    def counts(self) -> tuple[int, ...]:
        counts = sequential.design(self.quick).counts
        more = () if self.budget_s is None else BUDGET_COUNTS
        return *counts, *(count for count in more if count > counts[-1])

    def stopping_level(self, count: int) -> float:
        """Return the level at which the analysis after `count` rounds may end a block."""
        design = sequential.design(self.quick)
        return design.early if count < self.counts[-1] else design.level

    def is_finished(self, plan: Plan, states: Sequence[BlockState], number: int) -> bool:
        state = states[number]
        # `state` shows that no case can be measured; the other one omits rounds after the analysis
        analysed = state.until_last_analysis(self.counts)
        if not (self._is_decided(state) or self._is_decided(analysed)):
            return False
        return self.budget_s is None or _ends_at_next(state) or not state.is_wide

    def _is_decided(self, state: BlockState) -> bool:
        """Whether a block without a measurable case or pair, or an analysis, is decided."""
        count = len(state.rounds)
        if state.is_hopeless:
            return True
        if count not in self.counts:
            return False
        if _ends_at_next(state):
            return True
        if found := state.comparisons(self.stopping_level(count)):
            is_first = count == self.counts[0]
            has_verdicts = all(is_final(each, is_first) for each in found)
            return has_verdicts and (self.target is None or state.are_rates_resolved)
        fills_budget = len(state.block.cases) > 1 and self.budget_s is not None
        return not fills_budget and state.are_rates_resolved

    def _due(self, plan: Plan, states: States, times: Sequence[float]) -> list[Round]:
        """Return the rounds of undecided blocks, or else of others, or else the most useful one."""
        analysed = {n: state.until_last_analysis(self.counts) for n, state in states.items()}
        undecided = {n: states[n] for n in states if not self._is_decided(analysed[n])}
        counts = sequential.design(self.quick).counts
        return (
            _until_next(counts, undecided, plan.seed)
            or _until_next(counts, states, plan.seed)
            or self._most_useful(states, times)
        )

    def _most_useful(self, states: States, times: Sequence[float]) -> list[Round]:
        """Return the round that narrows the interval of its block most per second.

        A half-width w falls with the root of the number of rounds n, so one more round narrows it
        by about w / 2n.
        """
        gains: dict[Round, float] = {}
        for n, state in states.items():
            for number in _missing(state, self.counts[-1])[:1]:
                gains[Round(n, number)] = state.half_width / (2 * number * times[n])
        return [max(gains, key=lambda each: gains[each])] if gains else []


@dataclass(frozen=True, kw_only=True)
class Gate(StoppingRule):
    """Each pair is the baseline and the same case now; a block ends when its case is decided.

    If there is a condition, its verdict on this case must be final, too. A case that never has a
    rate on one side needs no further round.
    """

    gate: GateTerms

    @property
    def counts(self) -> tuple[int, ...]:
        return sequential.GATE.counts

    @property
    def has_short_rounds(self) -> bool:
        return True

    def places(self, plan: Plan, each: Round, records: Records) -> list[int]:
        """Return both places; alternate which side starts first, in case that has an effect."""
        places = [*plan.blocks[each.block].cases]
        return places if each.number % 2 else places[::-1]

    def is_finished(self, plan: Plan, states: Sequence[BlockState], number: int) -> bool:
        all_sides = [each.sides for each in states]
        sides, count = all_sides[number], len(states[number].rounds)
        if gate.never_works(sides.baseline) or gate.never_works(sides.now):
            return True
        if count == self.counts[-1]:
            return True
        family = len(plan.blocks) * (1 + len(self.gate.limits))
        if not gate.is_decided(sides, self.gate.loss, family, count):
            return False
        early = sequential.GATE.early / 2
        found = gate.judge_condition(self.gate, plan.cases_now, all_sides, early)
        return found is None or found.holds is False or found.cases[number] is not None


@dataclass(frozen=True, kw_only=True)
class LatencySearch(StoppingRule):
    """Open loops search the highest rate at which the only case keeps a latency target."""

    LOADS: ClassVar[str] = "loads at fixed rates"
    latency: LatencyTarget

    @property
    def counts(self) -> tuple[int, ...]:
        return ()

    def next_step(self, plan: Plan, records: Records) -> OpenLoop | None:
        """Return the load at the next rate; None if the search is over."""
        if (found := latency_capacity.next_step(self.latency, records)) is None:
            return None
        shortest_s = latency_capacity.shortest_load_s(self.latency)
        return OpenLoop(*found, self.latency.arrivals, shortest_s)

    def left_s(self, plan: Plan, records: Records, retry_s: float = 0.0) -> float:
        """Return the expected time of the remaining loads in s, without those of round 1."""
        return latency_capacity.left_s(self.latency, records)

    def expected_s(self, plan: Plan) -> tuple[float, float]:
        """Return the expected time of a whole search in s, twice."""
        return (latency_capacity.expected_s(self.latency),) * 2

    def is_finished(self, plan: Plan, states: Sequence[BlockState], number: int) -> bool:
        return True


def new_seed() -> int:
    """Return a random seed for a run."""
    return random.SystemRandom().randrange(1 << 32)


def _ends_at_next(state: BlockState) -> bool:
    """Whether a block ends at its next analysis even if it is unresolved."""
    return state.block.apart or state.has_maximum_load


def _missing(state: BlockState, count: int) -> list[int]:
    """Return the numbers of the rounds up to `count` that were not measured."""
    return [number for number in range(1, count + 1) if number not in state.rounds]


def _until_next(counts: Sequence[int], states: States, seed: int) -> list[Round]:
    """Return the rounds up to the first of `counts` that a block lacks.

    They are sorted by their number, and those with the same number at random. The order of two
    rounds does not depend on other rounds, so a resumed run continues in the same order.
    """

    def key(each: Round) -> tuple[int, float]:
        rng = random.Random(f"{seed}-{each.block}-{each.number}")  # noqa: S311 - no secret
        return each.number, rng.random()

    for count in counts:
        due = [Round(n, each) for n, state in states.items() for each in _missing(state, count)]
        if due:
            return sorted(due, key=key)
    return []
