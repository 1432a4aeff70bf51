"""Decide whether a block needs further rounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from offload.bench.analysis import comparison, gate, rate
from offload.bench.analysis.comparison import Comparison
from offload.bench.planning.plan import Plan
from offload.bench.records.record import Record
from offload.bench.records.run_records import RunRecords
from offload.bench.stats import sequential
from offload.bench.stats.estimate import SLOW
from offload.bench.stats.paired_test import DISTURBED, UNRESOLVED

MAX_LOAD_S = 60.0  # s of load of one case, after which its block ends even if unresolved
MAX_LOAD_SLOW_S = 180.0  # the same for cases below SLOW requests/s
WIDE = 0.10  # half-width of a ratio's interval, above which left-over time is used to narrow it
STEADY = 0.02  # if the two windows of a case in a round differ by less, one window is enough


def places(plan: Plan, number: int, records: Sequence[Record]) -> list[int]:
    """Return the places of a block's cases that are measured further; for a gate always both."""
    if plan.gate is not None:
        return [*plan.blocks[number].cases]
    return [*_measurable_windows(plan, number, _of_block(records, number))]


def is_finished(plan: Plan, number: int, records: Sequence[Record]) -> bool:
    """Whether a block needs no further round.

    A block is finished when it is decided and, in a run with a time budget, none of its ratios has
    a wide interval. A block of a gate is finished when its gate is decided.
    """
    own = _of_block(records, number)
    if plan.gate is not None:
        return _is_gate_decided(plan, number, records)
    analysed = until_last_analysis(plan, number, own)
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
    loaded for MAX_LOAD_S, a block is decided at its next analysis.
    """
    own = _of_block(records, number)
    block, known = plan.blocks[number], _measurable_windows(plan, number, own)
    if not known or (block.pairs and not any(known.keys() >= {*pair} for pair in block.pairs)):
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


def is_steady(plan: Plan, number: int, records: Sequence[Record]) -> bool:
    """Whether both windows of each case in a round have the same rate, as for tasks that sleep.

    Then one window per case and round is enough. False before the first round.
    """
    own = _of_block(records, number)
    known = _measurable_windows(plan, number, own)
    windows = [record for found in known.values() for record in found]
    rates: dict[tuple[int | None, int | None], list[float | None]] = {}
    for record in windows:
        rates.setdefault((record.trial.round, record.trial.place), []).append(record.result.rate)
    repeated = [found for found in rates.values() if len(found) > 1]
    return bool(repeated) and all(_agree(found) for found in repeated)


def half_width(plan: Plan, number: int, records: Sequence[Record]) -> float:
    """Return the widest half-width of a block's ratios, or else of its rates, as a share."""
    own = _of_block(records, number)
    if found := _comparisons(plan, number, own):
        return max(map(_half_width_of, found))
    all_windows = _measurable_windows(plan, number, own).values()
    rates = [rate.of_windows(windows).half_width for windows in all_windows]
    return max((math.inf if each is None else each for each in rates), default=math.inf)


def until_last_analysis(plan: Plan, number: int, records: Sequence[Record]) -> list[Record]:
    """Return the records of a block up to its last analysis.

    An interrupted run may have more rounds, but they do not change the decision of that analysis.
    """
    own = _of_block(records, number)
    rounds = len({record.trial.round for record in own})
    last = max((count for count in plan.counts if count <= rounds), default=0)
    return [record for record in own if (record.trial.round or 0) <= last]


def _is_gate_decided(plan: Plan, number: int, records: Sequence[Record]) -> bool:
    """Whether the verdict of a gate's case is final.

    If there is a condition, its verdict on this case must be final, too. A case that never has a
    rate on one side needs no further round.
    """
    assert plan.gate is not None
    own = _of_block(records, number)
    known = RunRecords(own)
    sides = gate.Sides(*(known.at(place).windows() for place in plan.blocks[number].cases))
    if gate.never_works(sides.baseline) or gate.never_works(sides.now):
        return True
    count = len({record.trial.round for record in own})
    if count == plan.counts[-1]:
        return True
    family = len(plan.blocks) * (1 + len(plan.gate.limits))
    if not gate.is_decided(sides, plan.gate.loss, family, count):
        return False
    early = sequential.GATE.early / 2
    verdict = gate.judge_condition(plan.gate, plan.cases_now, plan.sides(records), early)
    return verdict is None or verdict.holds is False or verdict.cases[number] is not None


def _ends_at_next_analysis(plan: Plan, number: int, own: Sequence[Record]) -> bool:
    """Whether a block ends at its next analysis even if it is unresolved."""
    if plan.rounds is not None or plan.blocks[number].apart:
        return True
    return any(map(_has_maximum_load, _measurable_windows(plan, number, own).values()))


def _comparisons(
    plan: Plan, number: int, own: Sequence[Record], level: float | None = None
) -> list[Comparison]:
    """Return the comparisons of a block's pairs in which both cases are measured further."""
    known = _measurable_windows(plan, number, own)
    pairs = [pair for pair in plan.blocks[number].pairs if known.keys() >= {*pair}]
    return [comparison.compare(known[one], known[other], level=level) for one, other in pairs]


def _of_block(records: Sequence[Record], number: int) -> list[Record]:
    """Return the records of a block."""
    return [record for record in records if record.trial.block == number]


def _measurable_windows(plan: Plan, number: int, own: Sequence[Record]) -> dict[int, list[Record]]:
    """Return the windows of each case of a block, except those of hopeless cases."""
    windows = {place: RunRecords(own).at(place).windows() for place in plan.blocks[number].cases}
    return {place: found for place, found in windows.items() if not rate.is_hopeless(found)}


def _is_wide(found: Comparison) -> bool:
    """Whether the interval of a ratio is wide, and more rounds would narrow it."""
    if found.is_client_bound or found.disturbed:
        return False
    return WIDE < _half_width_of(found) < math.inf


def _half_width_of(found: Comparison) -> float:
    """Return the half-width of a ratio as a share; infinite if it is unknown."""
    low, high = found.verdict.low, found.verdict.high
    return math.sqrt(high / low) - 1 if low and high else math.inf


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
