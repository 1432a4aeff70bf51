"""The schedule: which rounds are due, derived from a plan and the records so far.

All blocks have their first round, in random order; then all have their second one, in another
order. So changes of the machine affect all blocks alike, and when time runs out all have the same
number of rounds. If time remains after the analyses of the design, the rounds that narrow a wide
interval most for their time follow. When all blocks are finished, every case has its long run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from offload.bench.analysis import comparison, gate, rate
from offload.bench.analysis.comparison import Comparison
from offload.bench.planning import round_times
from offload.bench.planning.plan import Plan
from offload.bench.records.record import LONG, Record
from offload.bench.records.run_records import RunRecords
from offload.bench.stats import sequential
from offload.bench.stats.estimate import SLOW
from offload.bench.stats.paired_test import DISTURBED, UNRESOLVED

ENOUGH = 60.0  # s of load of one case after which its block ends, even if unresolved
ENOUGH_SLOW = 180.0  # the same for cases below SLOW requests/s
WIDE = 0.10  # half-width of a ratio's interval, above which a verdict is worth more rounds
STEADY = 0.02  # largest difference of a case's two windows in a round, so that one suffices


@dataclass(frozen=True)
class Round:
    """A round that is due: the number of its block, and its own, from 1."""

    block: int
    number: int


def due(plan: Plan, records: Sequence[Record], left_out: Iterable[Round] = ()) -> list[Round]:
    """Return the rounds that are due before the next analysis of any block, in their order.

    Call it again when they are done: whether there are more depends on their figures. The rounds
    `left_out` are not returned: they do not fit into the time budget.
    """
    excluded = {(record.trial.block, record.trial.round) for record in records}
    excluded |= {(each.block, each.number) for each in left_out}
    blocks = [n for n in range(len(plan.blocks)) if not is_finished(plan, n, records)]
    undecided = blocks
    if plan.gate is None:
        own = {n: _until_analysis(plan, n, records) for n in blocks}
        undecided = [n for n in blocks if not is_decided(plan, n, own[n])]
    for candidates in (undecided, blocks):
        for count in plan.design_counts:
            numbers = {
                block: [n for n in range(1, count + 1) if (block, n) not in excluded]
                for block in candidates
            }
            if any(numbers.values()):
                return _in_order(numbers, plan.seed)
    return _most_useful(plan, blocks, records, excluded)


def _most_useful(
    plan: Plan,
    blocks: Sequence[int],
    records: Sequence[Record],
    excluded: Container[tuple[int | None, int | None]],
) -> list[Round]:
    """Return the further round that narrows the interval of its block most for its time.

    A half-width w falls with the root of the number of rounds n, so one more narrows it by w / 2n.
    """
    times = round_times.expected(plan, records)
    gains: dict[Round, float] = {}
    for block in blocks:
        numbers = (n for n in range(1, plan.counts[-1] + 1) if (block, n) not in excluded)
        if (number := next(numbers, None)) is not None:
            width = _half_width(plan, block, records)
            gains[Round(block, number)] = width / (2 * number * times[block])
    return [max(gains, key=lambda each: gains[each])] if gains else []


def _half_width(plan: Plan, number: int, records: Sequence[Record]) -> float:
    """Return the widest half-width of a block's ratios, or else of its rates, as a share."""
    own = [record for record in records if record.trial.block == number]
    if found := _comparisons(plan, number, own):
        return max(map(_half_width_of, found))
    rates = [rate.of_windows(windows).half_width for windows in _known(plan, number, own).values()]
    return max((math.inf if each is None else each for each in rates), default=math.inf)


def _until_analysis(plan: Plan, number: int, records: Sequence[Record]) -> list[Record]:
    """Return the records of a block up to its last analysis.

    An interrupted run may have more rounds. They do not change what was decided at that analysis.
    """
    own = [record for record in records if record.trial.block == number]
    rounds = len({record.trial.round for record in own})
    last = max((count for count in plan.counts if count <= rounds), default=0)
    return [record for record in own if (record.trial.round or 0) <= last]


def long_runs_due(plan: Plan, records: Sequence[Record]) -> list[int]:
    """Return the places of the cases without a long run, in the order of the table.

    Cases that could not be measured at all are not due.
    """
    if plan.driver is None:
        return []
    done = {record.trial.place for record in records if record.trial.kind == LONG}
    unavailable = {record.trial.place for record in records if record.is_unavailable}
    measured = {record.trial.place for record in records if record.result.rate}
    done |= unavailable - measured
    return [place for place in range(len(plan.cases)) if place not in done]


def is_finished(plan: Plan, number: int, records: Sequence[Record]) -> bool:
    """Whether a block needs no further round.

    It is decided, and if the run has a time budget, then none of its ratios is wide. The blocks of
    a gate end by themselves.
    """
    own = [record for record in records if record.trial.block == number]
    if plan.gate is not None:
        return _is_gate_decided(plan, number, records)
    analysed = _until_analysis(plan, number, own)
    if not (is_decided(plan, number, own) or is_decided(plan, number, analysed)):
        return False
    if plan.budget_s is None or _is_measured(plan, number, own):
        return True
    return not any(map(_is_wide, _comparisons(plan, number, own)))


def is_decided(plan: Plan, number: int, records: Sequence[Record]) -> bool:
    """Whether the records of a block suffice for its verdicts.

    A block is analysed when its number of rounds is one of `plan.counts`, and is decided only
    then, unless it has no measurable case or pair left. At an analysis a block with pairs is
    decided if each pair has a verdict at the stopping level of its design, and a block without
    pairs if every rate is known to the target. With a time budget, a block of several cases without
    pairs is not decided by its rates: it uses up the budget. A case that was loaded for ENOUGH
    seconds ends its block.
    """
    own = [record for record in records if record.trial.block == number]
    block, known = plan.blocks[number], _known(plan, number, own)
    if not known or (block.pairs and not any(known.keys() >= {*pair} for pair in block.pairs)):
        return True
    count = len({record.trial.round for record in own})
    if count not in plan.counts:
        return False
    if _is_measured(plan, number, own):
        return True
    if found := _comparisons(plan, number, own, plan.stopping_level(count)):
        is_first = count == plan.counts[0]
        has_verdicts = all(_is_final(each, is_first) for each in found)
        return has_verdicts and (plan.target is None or _are_resolved(known.values()))
    fills_budget = len(block.cases) > 1 and plan.budget_s is not None
    return not fills_budget and _are_resolved(known.values())


def _is_gate_decided(plan: Plan, number: int, records: Sequence[Record]) -> bool:
    """Whether more rounds would change neither the verdict on a gate's case nor its condition.

    A case that never has a rate on one side ends early.
    """
    assert plan.gate is not None
    own = [record for record in records if record.trial.block == number]
    known = RunRecords(own)
    sides = gate.Sides(*(known.at(place).windows() for place in plan.blocks[number].cases))
    if gate.never_works(sides.baseline) or gate.never_works(sides.now):
        return True
    count = len({record.trial.round for record in own})
    if count == plan.counts[-1]:
        return True
    named = plan.gate.figures(plan.cases_now)
    if not gate.is_decided(sides, plan.gate.loss, len(plan.blocks) + len(named), count):
        return False
    if number not in named.values():
        return True
    early = sequential.GATE.early / 2
    verdict = gate.judge_condition(plan.gate, plan.cases_now, plan.sides(records), early)
    return verdict is None or verdict.holds is not None


def _known(plan: Plan, number: int, own: Sequence[Record]) -> dict[int, list[Record]]:
    """Return the windows of each case of a block, except hopeless ones."""
    windows = {place: RunRecords(own).at(place).windows() for place in plan.blocks[number].cases}
    return {place: found for place, found in windows.items() if not rate.is_hopeless(found)}


def _is_measured(plan: Plan, number: int, own: Sequence[Record]) -> bool:
    """Whether a block ends whatever its figures are, at its next analysis."""
    if plan.rounds is not None or plan.blocks[number].apart:
        return True
    return any(map(_has_enough, _known(plan, number, own).values()))


def _comparisons(
    plan: Plan, number: int, own: Sequence[Record], level: float | None = None
) -> list[Comparison]:
    """Compare the pairs of a block whose cases are both known, as `comparison.compare` does."""
    known = _known(plan, number, own)
    pairs = [pair for pair in plan.blocks[number].pairs if known.keys() >= {*pair}]
    return [comparison.compare(known[one], known[other], level=level) for one, other in pairs]


def _is_wide(found: Comparison) -> bool:
    """Whether more rounds would narrow a ratio that matters."""
    if found.is_client_bound or found.disturbed:
        return False
    return WIDE < _half_width_of(found) < math.inf


def _half_width_of(found: Comparison) -> float:
    """Return the half-width of a ratio as a share; infinite if it is unknown."""
    low, high = found.verdict.low, found.verdict.high
    return math.sqrt(high / low) - 1 if low and high else math.inf


def places_of(plan: Plan, number: int, records: Sequence[Record]) -> list[int]:
    """Return the places of the cases of a block, except hopeless ones; of a gate, both."""
    if plan.gate is not None:
        return [*plan.blocks[number].cases]
    own = [record for record in records if record.trial.block == number]
    return [*_known(plan, number, own)]


def is_steady(plan: Plan, number: int, records: Sequence[Record]) -> bool:
    """Whether a case has the same rate whenever it is loaded within a round, as tasks that sleep.

    Then one window of each case in a round suffices. False before the first round.
    """
    own = [record for record in records if record.trial.block == number]
    windows = [record for found in _known(plan, number, own).values() for record in found]
    rates: dict[tuple[int | None, int | None], list[float | None]] = {}
    for record in windows:
        rates.setdefault((record.trial.round, record.trial.place), []).append(record.result.rate)
    both = [found for found in rates.values() if len(found) > 1]
    return bool(both) and all(_agree(found) for found in both)


def _agree(rates: Sequence[float | None]) -> bool:
    known = [rate for rate in rates if rate]
    return len(known) == len(rates) and max(known) <= (1 + STEADY) * min(known)


def _is_final(found: Comparison, is_first: bool) -> bool:
    """Whether more rounds would not change a verdict.

    A disturbance may end, so the first analysis that finds one does not end the block. A load tool
    that limits the rates does so in every round.
    """
    if found.verdict.outcome == DISTURBED:
        return not is_first
    return found.is_client_bound or found.verdict.outcome != UNRESOLVED


def _are_resolved(all_windows: Iterable[Sequence[Record]]) -> bool:
    return all(rate.of_windows(windows).resolved for windows in all_windows)


def _has_enough(windows: Sequence[Record]) -> bool:
    loaded_s = sum(record.trial.phases.get("load", 0.0) for record in windows)
    found = rate.of_windows(windows).value
    return loaded_s >= (ENOUGH_SLOW if found is not None and found < SLOW else ENOUGH)


def _in_order(numbers: Mapping[int, Sequence[int]], seed: int) -> list[Round]:
    """Order the rounds of blocks by their number, and those of one number at random.

    The order of two rounds does not depend on the others, so that a resumed run continues in it.
    """

    def key(each: Round) -> tuple[int, float]:
        rng = random.Random(f"{seed}-{each.block}-{each.number}")  # noqa: S311 - no secret
        return each.number, rng.random()

    return sorted((Round(block, n) for block, own in numbers.items() for n in own), key=key)
