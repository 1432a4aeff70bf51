"""The schedule: which rounds are due, derived from a plan and the records so far.

First every block has one round, in random order; then every block has its second round, in another
order, and so on. So changes of the machine affect all blocks alike, and when the time budget ends
all blocks have the same number of rounds. If time remains after the last analysis of the design,
more rounds follow: those that narrow a wide interval most per second. When all blocks are finished,
every case has its long run.
"""

from __future__ import annotations

import random
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from offload.bench.planning import decision, round_times
from offload.bench.planning.plan import Plan
from offload.bench.records.record import LONG, Record


@dataclass(frozen=True)
class Round:
    """A round that is due: the index of its block, and its number, from 1."""

    block: int
    number: int


def due(plan: Plan, records: Sequence[Record], left_out: Iterable[Round] = ()) -> list[Round]:
    """Return the rounds that are due before the next analysis of any block, in their order.

    Call it again when they are done, because their figures determine whether there are more.
    Rounds in `left_out`, which do not fit into the time budget, are not returned.
    """
    excluded = {(record.trial.block, record.trial.round) for record in records}
    excluded |= {(each.block, each.number) for each in left_out}
    blocks = unfinished_blocks(plan, records)
    own = by_block(records)
    undecided = blocks
    if plan.gate is None:
        analysed = {n: decision.until_last_analysis(plan, n, own.get(n, [])) for n in blocks}
        undecided = [n for n in blocks if not decision.is_decided(plan, n, analysed[n])]
    for candidates in (undecided, blocks):
        for count in plan.design_counts:
            numbers = {
                block: [n for n in range(1, count + 1) if (block, n) not in excluded]
                for block in candidates
            }
            if any(numbers.values()):
                return _in_order(numbers, plan.seed)
    return _most_useful(plan, blocks, records, excluded)


def has_more(plan: Plan, records: Sequence[Record], left_s: float | None) -> bool:
    """Whether a round that is due now or later is expected to end within `left_s`.

    If `left_s` is None, there is no limit.
    """
    times, own = round_times.expected(plan, records), by_block(records)
    for block in unfinished_blocks(plan, records):
        done = {record.trial.round for record in own.get(block, [])}
        is_missing = any(number not in done for number in range(1, plan.counts[-1] + 1))
        if is_missing and (left_s is None or times[block] <= left_s):
            return True
    return False


def unfinished_blocks(plan: Plan, records: Sequence[Record]) -> list[int]:
    """Return the numbers of the blocks that need further rounds."""
    own, numbers = by_block(records), range(len(plan.blocks))
    if plan.gate is not None:  # its condition uses the records of all blocks
        return [n for n in numbers if not decision.is_finished(plan, n, records)]
    return [n for n in numbers if not decision.is_finished(plan, n, own.get(n, []))]


def by_block(records: Iterable[Record]) -> Mapping[int | None, list[Record]]:
    """Return the records of each block."""
    own: dict[int | None, list[Record]] = {}
    for record in records:
        own.setdefault(record.trial.block, []).append(record)
    return own


def _most_useful(
    plan: Plan,
    blocks: Sequence[int],
    records: Sequence[Record],
    excluded: Container[tuple[int | None, int | None]],
) -> list[Round]:
    """Return the round that narrows the interval of its block most per second.

    A half-width w falls with the root of the number of rounds n, so one more round narrows it by
    about w / 2n.
    """
    times, own = round_times.expected(plan, records), by_block(records)
    gains: dict[Round, float] = {}
    for block in blocks:
        numbers = (n for n in range(1, plan.counts[-1] + 1) if (block, n) not in excluded)
        if (number := next(numbers, None)) is not None:
            width = decision.half_width(plan, block, own.get(block, []))
            gains[Round(block, number)] = width / (2 * number * times[block])
    return [max(gains, key=lambda each: gains[each])] if gains else []


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


def _in_order(numbers: Mapping[int, Sequence[int]], seed: int) -> list[Round]:
    """Sort rounds by their number, and rounds with the same number at random.

    The order of two rounds does not depend on other rounds, so a resumed run continues in the same
    order.
    """

    def key(each: Round) -> tuple[int, float]:
        rng = random.Random(f"{seed}-{each.block}-{each.number}")  # noqa: S311 - no secret
        return each.number, rng.random()

    return sorted((Round(block, n) for block, own in numbers.items() for n in own), key=key)
