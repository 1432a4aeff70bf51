"""The comparison of two cases (offload compare): a run of one block with one pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from offload.bench.analysis import comparison, rate
from offload.bench.analysis.comparison import Comparison
from offload.engine import plan
from offload.engine.plan import Block, Plan, Sequential
from offload.engine.record import Record, RunRecords
from offload.errors import RunError
from offload.suites import Case


@dataclass(frozen=True)
class ComparedCases:
    """The comparison of two cases: with a ratio above 1, `other` is faster than `one`.

    `rates` are the rates of both cases in requests/s, and `records` their windows.
    """

    one: Case
    other: Case
    comparison: Comparison
    rates: tuple[float | None, float | None]
    records: tuple[Record, ...]
    folder: Path

    @property
    def names(self) -> tuple[str, str]:
        """The names of both cases."""
        return self.one.name, self.other.name


def comparison_plan(name: str, one: Case, other: Case, is_quick: bool) -> Plan:
    """Return the plan of a run that compares two cases; they may be the same."""
    blocks = (Block((0, 1), ((0, 1),)),)
    rule = Sequential(quick=is_quick)
    return Plan(name, (one, other), plan.new_seed(), None, rule, blocks=blocks)


def evaluate(one: Case, other: Case, records: Sequence[Record], folder: Path) -> ComparedCases:
    """Compare the two cases of a run; raise RunError when one of them has no rate."""
    first, second = (RunRecords(records).at(place).windows() for place in (0, 1))
    rates = rate.of_windows(first).value, rate.of_windows(second).value
    for case, own, known in zip((one, other), (first, second), rates, strict=True):
        if known is None:
            problem = next((r.problem for r in own if r.problem), "no request was completed")
            raise RunError(f"{case.name}: {problem}; records: {folder}")
    found = comparison.compare(first, second)
    return ComparedCases(one, other, found, rates, (*first, *second), folder)
