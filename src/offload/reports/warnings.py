"""The doubts about a row: the flags of its records, and what only all of them together show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offload.bench.records.record import Record
from offload.bench.stats import outliers, sequential
from offload.bench.stats.estimate import Estimate
from offload.flags import Flag
from offload.reports import provenance
from offload.reports.rows import Row

DISAGREE = 0.03  # between the rates of builtin and of the published tool
ABOVE = 1.02  # of a ceiling, which nothing exceeds


def of(row: Row) -> list[str]:
    """Word the doubts about a row, one a line, with what to do; of each kind the newest flag."""
    return [*_flags(row), *_derived(row)]


def counted(records: Sequence[Record], what: str) -> list[str]:
    """Give of each kind the newest flag, with how many of the records, named `what`, have one."""
    kinds = _by_kind(records).values()
    return [f"{found[-1]} ({len(found)} of {len(records)} {what})" for found in kinds]


def _flags(row: Row) -> Iterator[str]:
    for found in _by_kind(row.records).values():
        often = f" (in {len(found)} of {len(row.records)} runs)" if len(found) > 1 else ""
        yield f"{found[-1]}{often}"


def _by_kind(records: Sequence[Record]) -> dict[str, list[Flag]]:
    flags: dict[str, list[Flag]] = {}
    for record in records:
        for flag in record.flags:
            flags.setdefault(flag.kind, []).append(flag)
    return flags


def _derived(row: Row) -> Iterator[str]:
    if (who := provenance.gil_came_on(row.first)) is not None:
        yield f"gil: {who} turned the GIL on: this is no row without it"
    found = row.estimate
    if found is not None and not found.resolved:
        yield f"unresolved: {_unresolved(row, found)}"
    for index in outliers.outliers([record.result.rate for record in row.visits]):
        visit = row.visits[index]
        gave = f"round {visit.trial.round} gave {visit.result.rate:.2f}/s"
        yield f"outlier: {gave}, far from the other visits"
    if row.long is not None and row.long.result.rate and found is not None and found.value:
        apart = row.long.result.rate / found.value - 1
        if not -DISAGREE - _extra(row.long) <= apart <= DISAGREE:
            yield (
                f"tools: {row.long.load.driver}'s one run is {apart:+.1%} from the visits by "
                "builtin: see its own output"
            )
    if row.ceiling is not None and _is_above_ceiling(row, row.ceiling.rate):
        kind, rate = row.ceiling.kind, row.ceiling.rate
        yield f"ceiling: the rate is above its {kind} ceiling of {rate:.2f}/s: check the task"


def _extra(long: Record) -> float:
    """Give the share of its rate that ab loses: it spends the time of one round of users more."""
    if long.load.driver != "ab" or not long.result.completed:
        return 0.0
    return long.case.users / (long.result.completed + long.case.users)


def _is_above_ceiling(row: Row, ceiling: float) -> bool:
    """Say whether the rate is above what bounds it, and so is its interval, where there is one."""
    found = row.estimate
    low = row.rate if found is None or found.low is None else found.low
    return (row.rate or 0.0) > ABOVE * ceiling and (low or 0.0) > ceiling


def _unresolved(row: Row, found: Estimate) -> str:
    width = "" if found.half_width is None else f" +-{found.half_width:.1%}"
    schedule = sequential.QUICK if row.first.trial.quick else sequential.NORMAL
    if found.n < schedule.counts[0]:
        return f"{found.n} of {schedule.counts[0]} visits or more{width}: fab resume goes on"
    return f"{found.n} visits gave no narrower interval{width}: try a quieter time"
