"""The plan of a run: its cases, its blocks, and the rule that says what is measured next.

    plan + records so far -> rule.next_step -> a round, a long run or an open loop -> more records
                                            -> None: the run is done

The rule answers from the plan and the records alone, so a resumed run continues as an
uninterrupted one. First every block has one round, in random order; then every block has its second
round, in another order, and so on. So changes of the machine affect all blocks alike, and when the
time budget ends all blocks have the same number of rounds. When all blocks are finished, every case
has its long run. `Fixed` and `Sequential` differ in when a block is finished; a study may have a
rule of its own.

Below the rules stand what they ask: which cases form a block (`Block`, `form_blocks`), what the
records of a block show so far (`BlockState`), and how long its rounds take.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from offload.engine import intervals
from offload.engine.decisions import DISTURBED, UNRESOLVED
from offload.engine.figures import Comparison, compare_windows, estimate_rate, is_hopeless
from offload.engine.intervals import SLOW
from offload.engine.record import LONG, WINDOW, Record, RunRecords
from offload.registry import catalog
from offload.suites import Case

BUDGET_COUNTS = (10, 14)  # rounds of additional analyses in a run with a time budget
MAX_ROUNDS = 1000  # of a plan: more would take days
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

    case_index: int


@dataclass(frozen=True)
class OpenLoop:
    """A load of the only case at a fixed rate, for at least `seconds`, in a round of a search."""

    number: int
    rate: float
    arrivals: str
    seconds: float


Step = Round | LongRun | OpenLoop
Records = Sequence[Record]
States = Mapping[int, "BlockState"]  # by the indexes of the blocks


@dataclass(frozen=True)
class Plan:
    """The `cases` of a run in the order of the table, and how they are measured.

    Each of `blocks` is measured with `builtin` in rounds, whose order `seed` determines, until
    `rule` ends it. Then each case has one long run with `driver` (None: no long runs). `missing` is
    the reason why `driver` is not the published tool; None if it is, or if the user chose it.
    `sampled` are the indexes of the cases whose stacks are sampled after the first round.
    """

    suite: str
    cases: tuple[Case, ...]
    seed: int
    driver: str | None
    rule: StoppingRule = field(default_factory=lambda: Sequential())  # noqa: PLW0108 - it is below
    missing: str | None = None
    blocks: tuple[Block, ...] = ()
    sampled: tuple[int, ...] = ()

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
        """Return the indexes of the cases without a long run, in the order of the table.

        Cases that could not be measured at all are not due.
        """
        if self.driver is None:
            return []
        done = {record.trial.case_index for record in records if record.trial.kind == LONG}
        unavailable = {record.trial.case_index for record in records if record.is_unavailable}
        measured = {record.trial.case_index for record in records if record.result.rate}
        done |= unavailable - measured
        return [index for index in range(len(self.cases)) if index not in done]

    def long_runs_s(self, records: Records) -> float:
        """Return the expected time of all due long runs in s."""
        due = self.long_runs_due(records)
        return sum(self.cases[index].seconds + LONG_RUN_OVERHEAD_S for index in due)

    @property
    def is_masked(self) -> bool:
        """Whether it was read from a file that lacks a value or a body of its requests."""
        return any(case.request is not None and case.request.is_masked for case in self.cases)

    def title(self, block: int) -> str:
        """Return a short name of a block: what its cases have in common."""
        cases = [self.cases[index] for index in self.blocks[block].cases]
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
        case_indexes = plan.long_runs_due(records)
        return LongRun(case_indexes[0]) if case_indexes else None

    def due(self, plan: Plan, records: Records, left_s: float | None = None) -> list[Round]:
        """Return the rounds that are due before the next analysis of any block, in their order.

        Their figures determine whether there are more. With `left_s` only those of blocks whose
        round is expected to end within this time.
        """
        times, states = expected_times(plan.blocks, records), plan.states(records)
        fitting = (n for n, time in enumerate(times) if left_s is None or time <= left_s)
        unfinished = {n: states[n] for n in fitting if not self.is_finished(plan, states, n)}
        return self._due(plan, unfinished, times)

    @abstractmethod
    def is_finished(self, plan: Plan, states: Sequence[BlockState], number: int) -> bool:
        """Whether a block needs no further round."""

    def case_indexes(self, plan: Plan, each: Round, records: Records) -> list[int]:
        """Return the indexes of the cases that a round measures, without hopeless ones."""
        return [*plan.states(records)[each.block].windows]

    def may_retry(self, plan: Plan, records: Records, each: Round) -> bool:
        """Whether a round has a measurable case, and its retry fits beside all due rounds."""
        if not self.case_indexes(plan, each, records):
            return False
        left_s = self.left_for_rounds_s(plan, records)
        if left_s is None:
            return True
        times = expected_times(plan.blocks, records)
        others_s = sum(times[other.block] for other in self.due(plan, records))
        retry_s = round_time(plan.blocks, records, each.block, each.number)
        return retry_s + others_s <= left_s

    def left_for_rounds_s(self, plan: Plan, records: Records) -> float | None:
        """Return the time in s for rounds, without that of due long runs; None if unlimited."""
        if self.budget_s is None:
            return None
        rounds_s = sum(measured_times(plan.blocks, records).values())
        others = (record.trial for record in records if record.trial.kind != WINDOW)
        others_s = sum(sum(trial.phases.values()) for trial in others)
        return self.budget_s - (rounds_s + others_s) - plan.long_runs_s(records)

    def left_s(self, plan: Plan, records: Records, retry_s: float = 0.0) -> float:
        """Return the remaining time in s: at least a retry, all due rounds, and all long runs."""
        times = expected_times(plan.blocks, records)
        rounds_s = retry_s + sum(times[each.block] for each in self.due(plan, records))
        if (left_s := self.left_for_rounds_s(plan, records)) is not None:
            rounds_s = min(rounds_s, max(0.0, left_s))
        return rounds_s + plan.long_runs_s(records)

    def expected_s(self, plan: Plan) -> tuple[float, float]:
        """Return the shortest and the longest expected time of a new run in s."""
        round_s, long_s = sum(expected_times(plan.blocks, [])), plan.long_runs_s([])
        most_s = math.inf if self.budget_s is None else self.budget_s
        first, last = self.counts[0], self.counts[-1]
        return min(most_s, first * round_s + long_s), min(most_s, last * round_s + long_s)

    def check(self, plan: Plan) -> None:  # noqa: B027 - most rules have nothing to check
        """Raise ValueError for values with which the plan cannot be measured."""

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

    def check(self, plan: Plan) -> None:
        if not 1 <= self.rounds <= MAX_ROUNDS:
            raise ValueError(f"rounds={self.rounds} must be from 1 to {MAX_ROUNDS}")


@dataclass(frozen=True, kw_only=True)
class Sequential(StoppingRule):
    """A block ends at an analysis that decides it, or after the last one.

    A block with pairs is decided if each pair has a verdict at the stopping level of the design,
    and a block without pairs if the half-width of every rate is within the target. With a time
    budget, a block of several cases without pairs is never decided by its rates: it uses all of the
    budget. If a case was loaded for too long, and if the cases are measured alone, the next
    analysis ends the block. If time remains after all blocks are decided, more rounds follow: those
    that narrow a wide interval most per second.
    """

    @property
    def counts(self) -> tuple[int, ...]:
        counts = intervals.sequential_design(self.quick).counts
        more = () if self.budget_s is None else BUDGET_COUNTS
        return *counts, *(count for count in more if count > counts[-1])

    def stopping_level(self, count: int) -> float:
        """Return the level at which the analysis after `count` rounds may end a block."""
        design = intervals.sequential_design(self.quick)
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
        counts = intervals.sequential_design(self.quick).counts
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


def new_seed() -> int:
    """Return a random seed for a run."""
    return random.SystemRandom().randrange(1 << 32)


def comparison_plan(name: str, one: Case, other: Case, is_quick: bool) -> Plan:
    """Return the plan of a run that compares two cases; they may be the same."""
    blocks = (Block((0, 1), ((0, 1),)),)
    rule = Sequential(quick=is_quick)
    return Plan(name, (one, other), new_seed(), None, rule, blocks=blocks)


def _ends_at_next(state: BlockState) -> bool:
    """Whether a block ends at its next analysis even if it is unresolved."""
    return state.block.measured_alone or state.has_maximum_load


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


MOST = 8  # in a block: more servers at once fill the memory of a small machine
MOST_WORKERS = 64  # of all servers in a block; a block of only two cases may have more
WORKERS = 4  # the default number of workers of a server
Pair = tuple[int, int]


@dataclass(frozen=True)
class Block:
    """The `cases` of a block and the `pairs` that are compared, as indexes of the plan's cases.

    The ratio of a pair is its second case over its first. A block without pairs measures rates.
    With `measured_alone` its servers run one after the other, to measure their memory: servers that
    run at the same time share pages, so the memory of each is unknown.
    """

    cases: tuple[int, ...]
    pairs: tuple[Pair, ...] = ()
    measured_alone: bool = False


def form_blocks(
    cases: Sequence[Case],
    pairs: Iterable[tuple[Case, Case]] = (),
    by_memory: Iterable[tuple[Case, Case]] = (),
) -> tuple[Block, ...]:
    """Divide cases into blocks, in the order of their first cases.

    Cases with the same task and request form a group, and so do both cases of each of `pairs`.
    Pairs with a case that is not in `cases` are ignored. A group of more than MOST cases or
    MOST_WORKERS workers is divided into blocks that all contain its first case; if that separates a
    pair, the pair has an additional block.
    Each pair of `by_memory`, whose memory is compared, also has an additional block.
    """
    case_indexes = {_identity(case): index for index, case in enumerate(cases)}
    given = _indexes_of_pairs(case_indexes, pairs)
    wanted = list(dict.fromkeys([*given, *_executor_pairs(cases), *_python_pairs(cases)]))
    groups = _groups(cases, wanted)
    sizes = [count_workers(case) for case in cases]
    blocks = [block for group in groups for block in _blocks(group, wanted, sizes)]
    for_memory = dict.fromkeys(_indexes_of_pairs(case_indexes, by_memory))
    return (*blocks, *(Block(pair, (pair,), measured_alone=True) for pair in for_memory))


def count_workers(case: Case) -> int:
    """Return the number of workers of a case's server, in all its processes."""
    size = catalog.find_server(case.server).size
    processes = case.settings.get("processes", 1) if size == "workers" else 1
    return int(str(processes)) * int(str(case.settings.get(size or "", WORKERS)))


def _indexes_of_pairs(
    case_indexes: Mapping[tuple[object, ...], int], pairs: Iterable[tuple[Case, Case]]
) -> list[Pair]:
    """Return the indexes of both cases of each pair; omit pairs with an unknown case."""
    found = [
        (case_indexes.get(_identity(one)), case_indexes.get(_identity(other)))
        for one, other in pairs
    ]
    return [(a, b) for a, b in found if a is not None and b is not None and a != b]


def _executor_pairs(cases: Sequence[Case]) -> list[Pair]:
    """Return the pairs of threads and processes with the same task, load and settings."""
    threads = {_load(case): n for n, case in enumerate(cases) if case.server == "threads"}
    return [
        (threads[_load(case)], n)
        for n, case in enumerate(cases)
        if case.server == "processes" and _load(case) in threads
    ]


def _python_pairs(cases: Sequence[Case]) -> list[Pair]:
    """Return the pairs of the same case in its first Python and in each other one."""
    first: dict[tuple[object, ...], int] = {}
    pairs = [
        (first.setdefault(_identity(replace(case, python=None)), n), n)
        for n, case in enumerate(cases)
    ]
    return [(one, other) for one, other in pairs if cases[one].python != cases[other].python]


def _groups(cases: Sequence[Case], pairs: Sequence[Pair]) -> list[list[int]]:
    """Return the groups of cases, as indexes: cases connected by a pair or by the same work."""
    first: dict[tuple[object, ...], int] = {}
    same_work = [(first.setdefault(_work(case), n), n) for n, case in enumerate(cases)]
    group_of = [*range(len(cases))]
    for one, other in (*same_work, *pairs):
        low, high = sorted((group_of[one], group_of[other]))
        if low != high:
            group_of = [low if group == high else group for group in group_of]
    groups: dict[int, list[int]] = {}
    for index, group in enumerate(group_of):
        groups.setdefault(group, []).append(index)
    return [*groups.values()]


def _blocks(group: Sequence[int], wanted: Sequence[Pair], sizes: Sequence[int]) -> list[Block]:
    """Return the blocks of a group; `sizes` are the numbers of workers of all cases."""
    own = [pair for pair in wanted if pair[0] in group]
    parts = [list(group)] if _fits(group, sizes) else _divide(group, own, sizes)
    together = [pair for pair in own if any({*pair} <= {*part} for part in parts)]
    blocks = [
        Block(tuple(part), tuple(pair for pair in together if {*pair} <= {*part})) for part in parts
    ]
    return blocks + [Block(pair, (pair,)) for pair in own if pair not in together]


def _fits(part: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether the servers of these cases may run at the same time."""
    all_workers = sum(sizes[index] for index in part)
    return len(part) <= MOST and (all_workers <= MOST_WORKERS or len(part) <= 2)


def _divide(group: Sequence[int], pairs: Sequence[Pair], sizes: Sequence[int]) -> list[list[int]]:
    """Divide a group into parts that all have its first case; pairs stay together if they fit."""
    first = group[0]
    parts = [[first]]
    for index in group[1:]:
        if any(index in part for part in parts):
            continue
        partners = [other for pair in pairs if index in pair for other in pair]
        new = [n for n in dict.fromkeys([index, *partners]) if not any(n in p for p in parts)]
        if not _fits([*parts[-1], *new], sizes):
            parts.append([first])
        for each in new:
            if not _fits([*parts[-1], each], sizes):
                parts.append([first])
            parts[-1].append(each)
    return parts


def _work(case: Case) -> tuple[object, ...]:
    return (case.task, case.path, str(case.request))


def _load(case: Case) -> tuple[object, ...]:
    settings = tuple(sorted((key, str(value)) for key, value in case.settings.items()))
    return (_work(case), case.users, case.keep_alive, case.python, settings)


def _identity(case: Case) -> tuple[object, ...]:
    return (*case.key, case.clients)


MAX_LOAD_S = 60.0  # s of load of one case, after which its block ends even if unresolved
MAX_LOAD_SLOW_S = 180.0  # the same for cases below SLOW requests/s
WIDE = 0.10  # half-width of a ratio's interval, above which left-over time is used to narrow it
STEADY = 0.02  # if the two windows of a case in a round differ by less, one window is enough


@dataclass(frozen=True)
class BlockState:
    """A block and its records so far."""

    block: Block
    records: Sequence[Record]

    @cached_property
    def rounds(self) -> frozenset[int | None]:
        """The numbers of the rounds that were measured."""
        return frozenset(record.trial.round for record in self.records)

    @cached_property
    def windows(self) -> Mapping[int, list[Record]]:
        """The windows of each case by its index, without those of hopeless cases."""
        own = RunRecords(self.records)
        windows = {index: own.at(index).windows() for index in self.block.cases}
        return {index: found for index, found in windows.items() if not is_hopeless(found)}

    @property
    def is_hopeless(self) -> bool:
        """Whether no case, or no pair of a block with pairs, can be measured further."""
        pairs, known = self.block.pairs, self.windows.keys()
        return not known or (bool(pairs) and not any(known >= {*pair} for pair in pairs))

    def until_last_analysis(self, counts: Sequence[int]) -> BlockState:
        """Return the state after the last of `counts` rounds that were measured.

        An interrupted run may have more rounds, but they do not change the decision after it.
        """
        last = max((count for count in counts if count <= len(self.rounds)), default=0)
        own = [record for record in self.records if (record.trial.round or 0) <= last]
        return BlockState(self.block, own)

    def comparisons(self, level: float | None = None) -> list[Comparison]:
        """Return the comparisons of the pairs in which both cases are measured further."""
        known = self.windows
        pairs = [pair for pair in self.block.pairs if known.keys() >= {*pair}]
        return [compare_windows(known[one], known[other], level=level) for one, other in pairs]

    @property
    def are_rates_resolved(self) -> bool:
        """Whether the intervals of all rates are within their target."""
        return all(estimate_rate(windows).resolved for windows in self.windows.values())

    @property
    def has_maximum_load(self) -> bool:
        """Whether one of the cases was loaded for so long that its block ends."""
        return any(map(_has_maximum_load, self.windows.values()))

    @property
    def is_wide(self) -> bool:
        """Whether the interval of a ratio is wide, and more rounds would narrow it."""
        return any(
            WIDE < _half_width_of(each) < math.inf
            for each in self.comparisons()
            if not each.is_client_bound and not each.disturbed
        )

    @property
    def half_width(self) -> float:
        """The widest half-width of the ratios, or else of the rates, as a share."""
        if found := self.comparisons():
            return max(map(_half_width_of, found))
        rates = [estimate_rate(windows).half_width for windows in self.windows.values()]
        return max((math.inf if each is None else each for each in rates), default=math.inf)

    @property
    def is_steady(self) -> bool:
        """Whether both windows of each case in a round have the same rate, as for tasks that sleep.

        Then one window per case and round is enough. False before the first round.
        """
        rates: dict[tuple[int | None, int | None], list[float | None]] = {}
        for record in (record for found in self.windows.values() for record in found):
            key = (record.trial.round, record.trial.case_index)
            rates.setdefault(key, []).append(record.result.rate)
        repeated = [found for found in rates.values() if len(found) > 1]
        return bool(repeated) and all(map(_agree, repeated))


def is_final(found: Comparison, is_first: bool) -> bool:
    """Whether a verdict needs no more rounds.

    A disturbance may be temporary, so a disturbed verdict is not final at the first analysis. If
    the load tool limits the rates, more rounds do not help.
    """
    if found.verdict.outcome == DISTURBED:
        return not is_first
    return found.is_client_bound or found.verdict.outcome != UNRESOLVED


def _has_maximum_load(windows: Sequence[Record]) -> bool:
    loaded_s = sum(record.trial.phases.get("load", 0.0) for record in windows)
    found = estimate_rate(windows).value
    return loaded_s >= (MAX_LOAD_SLOW_S if found is not None and found < SLOW else MAX_LOAD_S)


def _half_width_of(found: Comparison) -> float:
    """Return the half-width of a ratio as a share; infinite if it is unknown."""
    low, high = found.verdict.low, found.verdict.high
    return math.sqrt(high / low) - 1 if low and high else math.inf


def _agree(rates: Sequence[float | None]) -> bool:
    known = [rate for rate in rates if rate]
    return len(known) == len(rates) and max(known) <= (1 + STEADY) * min(known)


GUESS = 4.0  # s per case of a round, until one round of its block was measured


def expected_times(blocks: Sequence[Block], records: Sequence[Record]) -> list[float]:
    """Return the expected time in s of a round of each block: that of its last one, or a guess."""
    times = [GUESS * len(block.cases) for block in blocks]
    for (block, _, _), seconds in measured_times(blocks, records).items():
        if block is not None and 0 <= block < len(times):
            times[block] = seconds
    return times


def round_time(
    blocks: Sequence[Block], records: Sequence[Record], block: int, number: int
) -> float:
    """Return the duration in s of the first attempt of a round; 0.0 if it was not measured."""
    return measured_times(blocks, records).get((block, number, 1), 0.0)


def measured_times(
    blocks: Sequence[Block], records: Sequence[Record]
) -> Mapping[tuple[int | None, int | None, int], float]:
    """Return the duration in s of each attempt of a round, by (block, round, attempt).

    The phases of a round other than `load` are counted once, because its windows share them. In a
    block that runs `measured_alone` they are counted once for each case.
    """
    times: dict[tuple[int | None, int | None, int], float] = {}
    seen: set[tuple[int | None, int | None, int, int | None]] = set()
    for record in records:
        trial = record.trial
        if trial.kind != WINDOW:
            continue
        attempt = (trial.block, trial.round, trial.attempt)
        is_first = attempt not in times
        if (
            trial.block is not None
            and 0 <= trial.block < len(blocks)
            and blocks[trial.block].measured_alone
        ):
            is_first = (*attempt, trial.case_index) not in seen
            seen.add((*attempt, trial.case_index))
        phases = trial.phases.values() if is_first else [trial.phases.get("load", 0.0)]
        times[attempt] = times.get(attempt, 0.0) + sum(phases)
    return times
