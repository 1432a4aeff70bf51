"""Select the cases of a block that are measured further."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from offload.bench.analysis import comparison, rate, weighting
from offload.bench.planning.plan import Plan
from offload.bench.records.record import Record
from offload.bench.records.run_records import RunRecords
from offload.bench.stats.paired_test import SLOWER

# Ratio from which another size of a server is worth measuring, and its minimum chance; guesses
MUCH_FASTER, SIZE_CHANCE = 1.05, 0.25
FIRST_SELECTION = 2  # rounds after which cases that are probably not the fastest are left out
# Minimum chance of being the fastest. In simulated answers, selection by this chance made a third
# fewer wrong choices than leaving out only cases that are certainly slower.
LEAST_CHANCE = 0.03


def places(plan: Plan, number: int, records: Sequence[Record]) -> list[int]:
    """Return the places of a block's cases that are measured further; for a gate always both."""
    if plan.gate is not None:
        return [*plan.blocks[number].cases]
    own = of_block(records, number)
    return [*select_windows(plan, number, own)]


def of_block(records: Sequence[Record], number: int) -> list[Record]:
    """Return the records of a block."""
    return [record for record in records if record.trial.block == number]


def measurable_windows(plan: Plan, number: int, own: Sequence[Record]) -> dict[int, list[Record]]:
    """Return the windows of each case of a block, except those of hopeless cases."""
    windows = {place: RunRecords(own).at(place).windows() for place in plan.blocks[number].cases}
    return {place: found for place, found in windows.items() if not rate.is_hopeless(found)}


def select_windows(plan: Plan, number: int, own: Sequence[Record]) -> dict[int, list[Record]]:
    """Return the windows of the cases of a block that are measured further.

    These are the measurable cases. With `plan.selects` they are the cases of the last round, except
    those that are certainly slower than the fastest one, and sizes that may gain little, from the
    first analysis on. With predicted rates, cases that are unlikely to be the fastest are left
    out earlier.
    """
    known = measurable_windows(plan, number, own)
    last = max((record.trial.round or 0 for record in own), default=0)
    if not plan.selects or last < (FIRST_SELECTION if plan.predicted else plan.counts[0]):
        return known
    known = {place: found for place, found in known.items() if found[-1].trial.round == last}
    if known and plan.predicted:
        known = _without_unlikely(plan, known)
    if not known or last < plan.counts[0]:
        return known
    fastest = known[fastest_place(known)]
    known = {place: found for place, found in known.items() if not _is_slower(fastest, found)}
    return _without_equal_sizes(plan, known)


def _without_unlikely(plan: Plan, known: dict[int, list[Record]]) -> dict[int, list[Record]]:
    """Return the windows without those of cases that are unlikely to be the fastest.

    The case with the highest weighted ratio stays, and so do those with a chance of at least
    LEAST_CHANCE to be faster than it. The best case with another server stays in any case; without
    one, the best other size.
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
    others = [place for place in known if place != best]
    others = [place for place in others if plan.cases[place].server != server] or others
    rival = max(others, key=lambda place: chances[place], default=best)
    return {
        place: found
        for place, found in known.items()
        if chances[place] >= LEAST_CHANCE or place == rival
    }


def _without_equal_sizes(plan: Plan, known: dict[int, list[Record]]) -> dict[int, list[Record]]:
    """Return the windows without those of sizes that are unlikely to be much faster than the first.

    The first size of each server stays. So the servers have more rounds to be compared. If only one
    server is left, all its sizes stay.
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
        or _may_be_much_faster(plan, known, own, place)
    }


def _may_be_much_faster(
    plan: Plan, known: Mapping[int, Sequence[Record]], one: int, other: int
) -> bool:
    """Whether the size `other` has a chance of SIZE_CHANCE to be MUCH_FASTER than `one`."""
    verdict = comparison.compare(known[one], known[other]).verdict
    if not plan.predicted or verdict.sd is None:
        return (verdict.ratio or 0.0) >= MUCH_FASTER
    chance = weighting.chance_of_being_faster(
        verdict,
        plan.predicted[other] / plan.predicted[one],
        verdict.sd,
        weighting.SIZE_SD,
        MUCH_FASTER,
    )
    return chance is not None and chance >= SIZE_CHANCE


def fastest_place(windows: Mapping[int, Sequence[Record]]) -> int:
    """Return the place of the case with the highest mean rate."""
    return max(windows, key=lambda place: rate.of_windows(windows[place]).value or 0.0)


def _is_slower(fastest: Sequence[Record], other: Sequence[Record]) -> bool:
    return comparison.compare(fastest, other).verdict.outcome == SLOWER
