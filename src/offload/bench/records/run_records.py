"""The records of a run: selections, and values by round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from offload.bench.records.record import TEST, WINDOW, Record

Value = Callable[[Record], float | None]
RoundKey = tuple[str, int | None, int | None]  # run, block, number


@dataclass(frozen=True)
class RunRecords:
    """Records in the order in which they were measured."""

    records: Sequence[Record]

    def of_case(self, *keys: tuple[object, ...]) -> RunRecords:
        """Return the records of one case, which may have several keys."""
        return RunRecords([record for record in self.records if record.key in keys])

    def at(self, place: int) -> RunRecords:
        """Return the records of the case at a place in the plan."""
        return RunRecords([record for record in self.records if record.trial.place == place])

    def last_attempts(self) -> list[Record]:
        """Return the records without those of attempts that were retried."""
        trials = [record.trial for record in self.records]
        rounds = [
            (record.key, trial.place, trial.run, trial.kind, trial.block, trial.round)
            for record, trial in zip(self.records, trials, strict=True)
        ]
        last = dict(zip(rounds, (trial.attempt for trial in trials), strict=True))
        return [
            record
            for record, key in zip(self.records, rounds, strict=True)
            if record.trial.kind == TEST or record.trial.attempt == last[key]
        ]

    def windows(self) -> list[Record]:
        """Return the last attempts of windows."""
        return [record for record in self.last_attempts() if record.trial.kind == WINDOW]


def without_repeated_argv(record: Record, earlier: Sequence[Record]) -> Record:
    """Omit the load tool's argv if the last one of the case is the same, except for the URL."""
    same = (
        each
        for each in reversed(earlier)
        if each.load.argv and each.key == record.key and each.trial.kind == record.trial.kind
    )
    last = next(same, None)
    if last is None or not record.load.argv or _command(last) != _command(record):
        return record
    return replace(record, load=replace(record.load, argv=None))


def _command(record: Record) -> list[str]:
    url = record.load.url or ""
    return [word.replace(url, "{url}") if url else word for word in record.load.argv or ()]


def of_rate(windows: Sequence[Record]) -> Sequence[Record]:
    """Return the windows from which a case's rate is computed.

    These are the windows with the other servers of the block running. Windows with `apart` measure
    memory, and are used only if there are no others: a server is a little faster if no idle servers
    run at the same time.
    """
    return [record for record in windows if not record.trial.apart] or windows


def by_round(windows: Sequence[Record], value: Value) -> Mapping[RoundKey, float]:
    """Return the geometric mean of a value over the windows of one case in each round.

    Rounds without a value are omitted. Values of 0 or less are ignored, and so are windows with a
    problem: the number of requests that a server completed before it died is not a rate.
    """
    known: dict[RoundKey, list[float]] = {}
    for record in windows:
        if record.problem is None and (found := value(record) or 0.0) > 0:
            trial = record.trial
            known.setdefault((trial.run, trial.block, trial.round), []).append(found)
    return {which: statistics.geometric_mean(values) for which, values in known.items()}


def pairs_by_round(
    one: Sequence[Record], other: Sequence[Record], value: Value
) -> list[tuple[float, float]]:
    """Return the pairs of values of two cases, for each round in which both have a value."""
    first, second = by_round(one, value), by_round(other, value)
    return [(found, second[which]) for which, found in first.items() if which in second]
