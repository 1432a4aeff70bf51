"""The rows of a run so far, one per case: what the terminal and the live page show."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from offload.bench.analysis import capacity, rate
from offload.bench.records.record import LONG, Record
from offload.bench.records.run_records import RunRecords
from offload.suites import Case
from offload.units import number, percent

HEAD = ("Case", "Phase", "Rounds", "Rate per s (95 % interval)", "GIL held", "Loop lag p99")
NUMBERS = (2, 4, 5)  # the columns that are aligned to the right
UNKNOWN = "-"


@dataclass
class CaseRow:
    """The records of a case so far, and its cells without the phase."""

    name: str
    records: list[Record] = field(default_factory=list)
    cells: tuple[str, str, str, str] = ("0", UNKNOWN, UNKNOWN, UNKNOWN)

    def add(self, record: Record) -> None:
        """Add a record; `compute` shows it."""
        self.records.append(record)

    def compute(self) -> None:
        """Compute the cells from all records."""
        windows = RunRecords(self.records).windows()
        rounds = {(record.trial.block, record.trial.round) for record in windows}
        gil = capacity.median(self.records, lambda record: record.gil.hold.value)
        lag = capacity.median(self.records, lambda record: record.tasks.loop_lag_p99_ms)
        self.cells = (
            str(len(rounds)),
            _rate(windows, self.records),
            UNKNOWN if gil is None else percent(gil),
            UNKNOWN if lag is None else f"{lag:.1f} ms",
        )


class CaseRows:
    """The rows of the cases of a plan, and of others as their records come.

    `version` changes with the cells. Only rows with new records are computed.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        self.version = 0
        self.rows = [CaseRow(case.name) for case in cases]
        self._planned = len(cases)
        self._places: dict[Hashable, int] = {}
        for place, case in enumerate(cases):
            self._places.setdefault(case.key, place)

    def add(self, records: Sequence[Record]) -> None:
        """Add records to their rows."""
        changed = {self._place_of(record): record for record in records}
        for record in records:
            self.rows[self._place_of(record)].add(record)
        for place in changed:
            self.rows[place].compute()
        self.version += bool(changed)

    def _place_of(self, record: Record) -> int:
        place = record.trial.place
        if place is not None and 0 <= place < self._planned:
            return place
        if record.key not in self._places:
            self._places[record.key] = len(self.rows)
            self.rows.append(CaseRow(record.case.id))
        return self._places[record.key]


def _rate(windows: Sequence[Record], records: Sequence[Record]) -> str:
    """Return the rate with its interval, that of a long run alone, or why there is none."""
    found = rate.of_windows(windows)
    if found.value is not None:
        if found.low is None or found.high is None:
            return number(found.value)
        return f"{number(found.value)} ({number(found.low)} to {number(found.high)})"
    others = [record.result.rate for record in records if record.trial.kind == LONG or not windows]
    if known := [value for value in others if value]:
        return number(known[-1])
    problems = [record.problem.text for record in records if record.problem is not None]
    return problems[-1] if problems else "no rate"
