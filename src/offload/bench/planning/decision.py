"""Decide whether a block needs further rounds, and which of its cases are measured further."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from offload.bench.analysis import comparison, gate, rate, weighting
from offload.bench.analysis.comparison import Comparison
from offload.bench.planning.plan import Plan
from offload.bench.records.record import Record
from offload.bench.records.run_records import RunRecords
from offload.bench.stats import sequential
from offload.bench.stats.estimate import SLOW
from offload.bench.stats.paired_test import DISTURBED, SLOWER, UNRESOLVED

MAX_LOAD_S = 60.0  # s of load of one case, after which its block ends even if unresolved
MAX_LOAD_SLOW_S = 180.0  # the same for cases below SLOW requests/s
WIDE = 0.10  # half-width of a ratio's interval, above which left-over time is used to narrow it
MUCH_FASTER = 1.05  # ratio from which another size of a server is preferred; a guess
# Rounds and chance of being the fastest, with which a case is left out; in simulated answers, 0.03
# instead of certain differences reduced the number of wrong choices by a third
EARLY, LEAST_CHANCE = 2, 0.03
STEADY = 0.02  # if the two windows of a case in a round differ by less, one window is enough


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
    loaded for MAX_LOAD_S, a block is decided at its next analysis. With `plan.selects` a block is
    decided when a single case is left.
    """
    own = _of_block(records, number)
    block, known = plan.blocks[number], _measurable(plan, number, own)
    has_pairs = bool(block.pairs) and not plan.selects  # else the fastest case is compared
    if not known or (has_pairs and not any(known.keys() >= {*pair} for pair in block.pairs)):
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


def places_of(plan: Plan, number: int, records: Sequence[Record]) -> list[int]:
    """Return the places of a block's cases that are measured further; for a gate always both."""
    if plan.gate is not None:
        return [*plan.blocks[number].cases]
    own = _of_block(records, number)
    return [*_selected(plan, number, own)]


def is_steady(plan: Plan, number: int, records: Sequence[Record]) -> bool:
    """Whether both windows of each case in a round have the same rate, as for tasks that sleep.

    Then one window per case and round is enough. False before the first round.
    """
    own = _of_block(records, number)
    windows = [record for found in _measurable(plan, number, own).values() for record in found]
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
    all_windows = _measurable(plan, number, own).values()
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


def _of_block(records: Sequence[Record], number: int) -> list[Record]:
    return [record for record in records if record.trial.block == number]


def _is_gate_decided(plan: Plan, number: int, records: Sequence[Record]) -> bool:
    """Whether the verdict of a gate's case is final.

    If the condition uses the case, the verdict of the condition must be final, too. A case that
    never has a rate on one side needs no further round.
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
    those that are certainly slower than the fastest one, and sizes that may gain little, from the
    first analysis on. With predicted rates, cases that are improbable to be the fastest are left
    out earlier.
    """
    known = _measurable(plan, number, own)
    last = max((record.trial.round or 0 for record in own), default=0)
    if not plan.selects or last < (EARLY if plan.predicted else plan.counts[0]):
        return known
    known = {place: found for place, found in known.items() if found[-1].trial.round == last}
    if known and plan.predicted:
        known = _without_improbable(plan, known)
    if not known or last < plan.counts[0]:
        return known
    fastest = known[_fastest(known)]
    known = {place: found for place, found in known.items() if not _is_slower(fastest, found)}
    return _without_equal_sizes(plan, known)


def _without_improbable(plan: Plan, known: dict[int, list[Record]]) -> dict[int, list[Record]]:
    """Return the windows without those of cases that are improbable to be the fastest.

    The case with the highest weighted ratio stays, and so do those with a chance of at least
    LEAST_CHANCE to be faster than it. The best case with another server stays in any case.
    """
    first = next(iter(known))
    ratios = {first: 1.0}
    for place in [*known][1:]:
        predicted = plan.predicted[place] / plan.predicted[first]
        ratio = weighting.ratio_of_windows(known[first], known[place], predicted)
        ratios[place] = ratio or 0.0
    best = max(known, key=lambda place: ratios[place])
    verdicts = {
        place: comparison.compare(known[best], known[place]).verdict
        for place in known
        if place != best
    }
    variances = [verdict.sd**2 for verdict in verdicts.values() if verdict.sd is not None]
    if not variances:
        return known
    sd = math.sqrt(statistics.fmean(variances))  # one for all cases: each has few rounds
    chances = {best: 1.0}
    for place, verdict in verdicts.items():
        predicted = plan.predicted[place] / plan.predicted[best]
        chance = weighting.chance_of_being_faster(verdict, predicted, sd)
        chances[place] = 1.0 if chance is None else chance
    server = plan.cases[best].server
    others = [place for place in known if plan.cases[place].server != server]
    rival = max(others, key=lambda place: chances[place], default=best)
    return {
        place: found
        for place, found in known.items()
        if chances[place] >= LEAST_CHANCE or place == rival
    }


def _without_equal_sizes(plan: Plan, known: dict[int, list[Record]]) -> dict[int, list[Record]]:
    """Return the windows without those of the sizes of a server that are not faster than its first.

    So the servers have more rounds to be compared. If only one server is left, all its sizes stay.
    """
    first: dict[str, int] = {}
    for place in known:
        first.setdefault(plan.cases[place].server, place)
    if len(first) < 2:
        return known
    return {
        place: found
        for place, found in known.items()
        if place == (own := first[plan.cases[place].server])
        or (comparison.compare(known[own], found).verdict.ratio or 0.0) >= MUCH_FASTER
    }


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
