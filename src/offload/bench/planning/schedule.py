"""The schedule: which rounds are due, derived from a plan and the records so far.

First every block has one round, in random order; then every block has its second round, in another
order, and so on. So changes of the machine affect all blocks alike, and when the time budget ends
all blocks have the same number of rounds. If time remains after the last analysis of the design,
more rounds follow: those that narrow a wide interval most per second. When all blocks are finished,
every case has its long run.
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
from offload.bench.stats.paired_test import DISTURBED, SLOWER, UNRESOLVED

MAX_LOAD_S = 60.0  # s of load of one case, after which its block ends even if unresolved
MAX_LOAD_SLOW_S = 180.0  # the same for cases below SLOW requests/s
WIDE = 0.10  # half-width of a ratio's interval, above which left-over time is used to narrow it
STEADY = 0.02  # if the two windows of a case in a round differ by less, one window is enough


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
        analysed = {n: _until_last_analysis(plan, n, own.get(n, [])) for n in blocks}
        undecided = [n for n in blocks if not is_decided(plan, n, analysed[n])]
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
        return [n for n in numbers if not is_finished(plan, n, records)]
    return [n for n in numbers if not is_finished(plan, n, own.get(n, []))]


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
            width = _half_width(plan, block, own.get(block, []))
            gains[Round(block, number)] = width / (2 * number * times[block])
    return [max(gains, key=lambda each: gains[each])] if gains else []


def _half_width(plan: Plan, number: int, records: Sequence[Record]) -> float:
    """Return the widest half-width of a block's ratios, or else of its rates, as a share."""
    own = [record for record in records if record.trial.block == number]
    if found := _comparisons(plan, number, own):
        return max(map(_half_width_of, found))
    all_windows = _measurable(plan, number, own).values()
    rates = [rate.of_windows(windows).half_width for windows in all_windows]
    return max((math.inf if each is None else each for each in rates), default=math.inf)


def _until_last_analysis(plan: Plan, number: int, records: Sequence[Record]) -> list[Record]:
    """Return the records of a block up to its last analysis.

    An interrupted run may have more rounds, but they do not change the decision of that analysis.
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

    A block is finished when it is decided and, in a run with a time budget, none of its ratios has
    a wide interval. A block of a gate is finished when its gate is decided.
    """
    own = [record for record in records if record.trial.block == number]
    if plan.gate is not None:
        return _is_gate_decided(plan, number, records)
    analysed = _until_last_analysis(plan, number, own)
    # `own` shows that no case can be measured; `analysed` excludes rounds after the last analysis
    if not (is_decided(plan, number, own) or is_decided(plan, number, analysed)):
        return False
    if plan.budget_s is None or _ends_at_next_analysis(plan, number, own):
        return True
    return not any(map(_is_wide, _comparisons(plan, number, own)))


def is_decided(plan: Plan, number: int, records: Sequence[Record]) -> bool:
    """Whether the records of a block suffice for its verdicts.

    A block without any measurable case or pair is decided at once, any other block only at an
    analysis: when its number of rounds is one of `plan.counts`. Then a block with pairs is decided
    if each pair has a verdict at the stopping level of the design, and a block without pairs if
    the half-width of every rate is within the target. With a time budget, a block of several cases
    without pairs is never decided by its rates: it uses all of the budget. If one of its cases was
    loaded for MAX_LOAD_S, a block is decided at its next analysis. With `plan.selects` a block is
    decided when a single case is left.
    """
    own = [record for record in records if record.trial.block == number]
    block, known = plan.blocks[number], _measurable(plan, number, own)
    if not known or (block.pairs and not any(known.keys() >= {*pair} for pair in block.pairs)):
        return True
    if plan.selects and len(block.cases) > 1 and len(_selected(plan, number, own)) < 2:
        return True
    count = len({record.trial.round for record in own})
    if count not in plan.counts:
        return False
    if _ends_at_next_analysis(plan, number, own):
        return True
    if found := _comparisons(plan, number, own, plan.stopping_level(count)):
        is_first = count == plan.counts[0]
        has_verdicts = all(_is_final(each, is_first) for each in found)
        return has_verdicts and (plan.target is None or _are_resolved(known.values()))
    fills_budget = len(block.cases) > 1 and plan.budget_s is not None
    return not fills_budget and _are_resolved(known.values())


def _is_gate_decided(plan: Plan, number: int, records: Sequence[Record]) -> bool:
    """Whether the verdict of a gate's case is final.

    If the condition uses the case, the verdict of the condition must be final, too. A case that
    never has a rate on one side needs no further round.
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


def _measurable(plan: Plan, number: int, own: Sequence[Record]) -> dict[int, list[Record]]:
    """Return the windows of each case of a block, except those of hopeless cases."""
    windows = {place: RunRecords(own).at(place).windows() for place in plan.blocks[number].cases}
    return {place: found for place, found in windows.items() if not rate.is_hopeless(found)}


def _selected(plan: Plan, number: int, own: Sequence[Record]) -> dict[int, list[Record]]:
    """Return the windows of the cases of a block that are measured further.

    These are the measurable cases. With `plan.selects` they are the cases of the last round, except
    those that are certainly slower than the fastest one, from the first analysis on.
    """
    known = _measurable(plan, number, own)
    last = max((record.trial.round or 0 for record in own), default=0)
    if not plan.selects or last < plan.counts[0]:
        return known
    known = {place: found for place, found in known.items() if found[-1].trial.round == last}
    if not known:
        return known
    fastest = known[_fastest(known)]
    return {place: found for place, found in known.items() if not _is_slower(fastest, found)}


def _fastest(windows: Mapping[int, Sequence[Record]]) -> int:
    """Return the place of the case with the highest mean rate."""
    return max(windows, key=lambda place: rate.of_windows(windows[place]).value or 0.0)


def _is_slower(fastest: Sequence[Record], other: Sequence[Record]) -> bool:
    return comparison.compare(fastest, other).verdict.outcome == SLOWER


def _ends_at_next_analysis(plan: Plan, number: int, own: Sequence[Record]) -> bool:
    """Whether a block ends at its next analysis even if it is unresolved."""
    if plan.rounds is not None or plan.blocks[number].apart:
        return True
    return any(map(_has_maximum_load, _measurable(plan, number, own).values()))


def _comparisons(
    plan: Plan, number: int, own: Sequence[Record], level: float | None = None
) -> list[Comparison]:
    """Return the comparisons of a block's pairs in which both cases are measured further.

    With `plan.selects` these are the comparisons of the fastest case with each other one.
    """
    known = _selected(plan, number, own)
    pairs = [pair for pair in plan.blocks[number].pairs if known.keys() >= {*pair}]
    if plan.selects and known:
        fastest = _fastest(known)
        pairs = [(fastest, place) for place in known if place != fastest]
    return [comparison.compare(known[one], known[other], level=level) for one, other in pairs]


def _is_wide(found: Comparison) -> bool:
    """Whether the interval of a ratio is wide, and more rounds would narrow it."""
    if found.is_client_bound or found.disturbed:
        return False
    return WIDE < _half_width_of(found) < math.inf


def _half_width_of(found: Comparison) -> float:
    """Return the half-width of a ratio as a share; infinite if it is unknown."""
    low, high = found.verdict.low, found.verdict.high
    return math.sqrt(high / low) - 1 if low and high else math.inf


def places_of(plan: Plan, number: int, records: Sequence[Record]) -> list[int]:
    """Return the places of a block's cases that are measured further; for a gate always both."""
    if plan.gate is not None:
        return [*plan.blocks[number].cases]
    own = [record for record in records if record.trial.block == number]
    return [*_selected(plan, number, own)]


def is_steady(plan: Plan, number: int, records: Sequence[Record]) -> bool:
    """Whether both windows of each case in a round have the same rate, as for tasks that sleep.

    Then one window per case and round is enough. False before the first round.
    """
    own = [record for record in records if record.trial.block == number]
    windows = [record for found in _measurable(plan, number, own).values() for record in found]
    rates: dict[tuple[int | None, int | None], list[float | None]] = {}
    for record in windows:
        rates.setdefault((record.trial.round, record.trial.place), []).append(record.result.rate)
    repeated = [found for found in rates.values() if len(found) > 1]
    return bool(repeated) and all(_agree(found) for found in repeated)


def _agree(rates: Sequence[float | None]) -> bool:
    known = [rate for rate in rates if rate]
    return len(known) == len(rates) and max(known) <= (1 + STEADY) * min(known)


def _is_final(found: Comparison, is_first: bool) -> bool:
    """Whether a verdict needs no more rounds.

    A disturbance may be temporary, so a disturbed verdict is not final at the first analysis. If
    the load tool limits the rates, more rounds do not help.
    """
    if found.verdict.outcome == DISTURBED:
        return not is_first
    return found.is_client_bound or found.verdict.outcome != UNRESOLVED


def _are_resolved(all_windows: Iterable[Sequence[Record]]) -> bool:
    return all(rate.of_windows(windows).resolved for windows in all_windows)


def _has_maximum_load(windows: Sequence[Record]) -> bool:
    loaded_s = sum(record.trial.phases.get("load", 0.0) for record in windows)
    found = rate.of_windows(windows).value
    return loaded_s >= (MAX_LOAD_SLOW_S if found is not None and found < SLOW else MAX_LOAD_S)


def _in_order(numbers: Mapping[int, Sequence[int]], seed: int) -> list[Round]:
    """Sort rounds by their number, and rounds with the same number at random.

    The order of two rounds does not depend on other rounds, so a resumed run continues in the same
    order.
    """

    def key(each: Round) -> tuple[int, float]:
        rng = random.Random(f"{seed}-{each.block}-{each.number}")  # noqa: S311 - no secret
        return each.number, rng.random()

    return sorted((Round(block, n) for block, own in numbers.items() for n in own), key=key)
