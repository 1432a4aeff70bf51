"""The state of a block: what its records so far say of its cases, and how precisely."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from offload.bench.analysis import comparison, rate
from offload.bench.analysis.comparison import Comparison
from offload.bench.analysis.gate import Sides
from offload.bench.planning.blocks import Block
from offload.bench.stats.estimate import SLOW
from offload.bench.stats.paired_test import DISTURBED, UNRESOLVED
from offload.engine.record import Record, RunRecords

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
        """The windows of each case by its place, without those of hopeless cases."""
        own = RunRecords(self.records)
        windows = {place: own.at(place).windows() for place in self.block.cases}
        return {place: found for place, found in windows.items() if not rate.is_hopeless(found)}

    @cached_property
    def sides(self) -> Sides:
        """The windows of a case of a gate: those of its baseline, and those now."""
        own = RunRecords(self.records)
        return Sides(*(own.at(place).windows() for place in self.block.cases))

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
        return [comparison.compare(known[one], known[other], level=level) for one, other in pairs]

    @property
    def are_rates_resolved(self) -> bool:
        """Whether the intervals of all rates are within their target."""
        return all(rate.of_windows(windows).resolved for windows in self.windows.values())

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
        rates = [rate.of_windows(windows).half_width for windows in self.windows.values()]
        return max((math.inf if each is None else each for each in rates), default=math.inf)

    @property
    def is_steady(self) -> bool:
        """Whether both windows of each case in a round have the same rate, as for tasks that sleep.

        Then one window per case and round is enough. False before the first round.
        """
        rates: dict[tuple[int | None, int | None], list[float | None]] = {}
        for record in (record for found in self.windows.values() for record in found):
            key = (record.trial.round, record.trial.place)
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
    found = rate.of_windows(windows).value
    return loaded_s >= (MAX_LOAD_SLOW_S if found is not None and found < SLOW else MAX_LOAD_S)


def _half_width_of(found: Comparison) -> float:
    """Return the half-width of a ratio as a share; infinite if it is unknown."""
    low, high = found.verdict.low, found.verdict.high
    return math.sqrt(high / low) - 1 if low and high else math.inf


def _agree(rates: Sequence[float | None]) -> bool:
    known = [rate for rate in rates if rate]
    return len(known) == len(rates) and max(known) <= (1 + STEADY) * min(known)
