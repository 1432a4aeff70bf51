"""The records of a run, and what several readers derive from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from offload.bench.records.record import PAIR, TEST, VISIT, Record

Value = Callable[[Record], float | None]


@dataclass(frozen=True)
class RunRecords:
    """Records in the order in which they were made."""

    records: Sequence[Record]

    def of_case(self, *keys: tuple[object, ...]) -> RunRecords:
        """Return the records of one case, under any of its keys."""
        return RunRecords([record for record in self.records if record.key in keys])

    def last_attempts(self) -> list[Record]:
        """Return the last record of each trial: a retry replaces the attempt before it.

        Manual load tests are trials of their own.
        """
        last: dict[tuple[object, ...], Record] = {}
        for number, record in enumerate(self.records):
            trial = record.trial
            which = number if trial.kind == TEST else trial.round
            last[record.key, trial.run, trial.kind, which] = record
        return list(last.values())

    def visits(self) -> list[Record]:
        """Return the last attempts of visits, and the slices of comparisons."""
        return [r for r in self.last_attempts() if r.trial.kind in (VISIT, PAIR)]


def pairs_by_round(
    one: Sequence[Record], other: Sequence[Record], value: Value
) -> list[tuple[float, float]]:
    """Return the values of two cases' trials of the same run and round, where both have one."""
    others = {(r.trial.run, r.trial.round): found for r in other if (found := value(r))}
    return [
        (found, others[r.trial.run, r.trial.round])
        for r in one
        if (r.trial.run, r.trial.round) in others and (found := value(r))
    ]
