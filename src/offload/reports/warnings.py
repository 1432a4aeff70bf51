"""Warnings on a row: the flags of its records, and findings from all records together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offload.bench.records.record import Record
from offload.bench.stats import outliers, sequential
from offload.bench.stats.estimate import Estimate
from offload.reports import provenance
from offload.reports.rows import Row

TOOL_DIFFERENCE = 0.03  # relative, between the rates of the published tool and of builtin
ABOVE = 1.02  # factor: a higher rate exceeds its ceiling


def row_warnings(row: Row) -> list[str]:
    """Return the warnings on a row, one line each, with a remedy; the newest flag of each kind."""
    return [*_flags(row), *_derived(row)]


def count_flags(records: Sequence[Record], what: str) -> list[str]:
    """Return the newest flag of each kind, and how many of the records (named `what`) have it."""
    kinds = _by_kind(records).values()
    return [f"{found[-1]} ({len(found)} of {len(records)} {what})" for found in kinds]


def _flags(row: Row) -> Iterator[str]:
    for found in _by_kind(row.records).values():
        often = f" (in {len(found)} of {len(row.records)} runs)" if len(found) > 1 else ""
        yield found[-1] + often


def _by_kind(records: Sequence[Record]) -> dict[str, list[str]]:
    flags: dict[str, list[str]] = {}
    for record in records:
        for flag in record.flags:
            flags.setdefault(flag.partition(":")[0], []).append(flag)
    return flags


def _derived(row: Row) -> Iterator[str]:
    if (importer := provenance.gil_enabled_by(row.first)) is not None:
        yield f"gil: {importer} turned the GIL on: this row is not free-threaded"
    found = row.estimate
    if found is not None and not found.resolved:
        yield f"unresolved: {_unresolved(row, found)}"
    for index in outliers.outliers([record.rate for record in row.visits]):
        visit = row.visits[index]
        yield f"outlier: round {visit.round} gave {visit.rate:.2f}/s, far from the other visits"
    if row.long is not None and row.long.rate and found is not None and found.value:
        apart = row.long.rate / found.value - 1
        if not -TOOL_DIFFERENCE - _ab_loss(row.long) <= apart <= TOOL_DIFFERENCE:
            yield (
                f"tools: {row.long.driver}'s one run is {apart:+.1%} from the visits by builtin: "
                "see its own output"
            )
    if row.ceiling is not None and _is_above_ceiling(row, row.ceiling.rate):
        kind, rate = row.ceiling.kind, row.ceiling.rate
        yield f"ceiling: the rate is above its {kind} ceiling of {rate:.2f}/s: check the task"


def _ab_loss(long: Record) -> float:
    """Return the share of its rate that ab loses: its time includes one more round of users."""
    if long.driver != "ab" or not long.completed:
        return 0.0
    return long.users / (long.completed + long.users)


def _is_above_ceiling(row: Row, ceiling: float) -> bool:
    """Return whether the rate and its interval, if there is one, are above the ceiling."""
    found = row.estimate
    low = row.rate if found is None or found.low is None else found.low
    return (row.rate or 0.0) > ABOVE * ceiling and (low or 0.0) > ceiling


def _unresolved(row: Row, found: Estimate) -> str:
    width = "" if found.half_width is None else f" +-{found.half_width:.1%}"
    schedule = sequential.QUICK if row.first.quick else sequential.NORMAL
    if found.n < schedule.counts[0]:
        return f"{found.n} of {schedule.counts[0]} visits or more{width}: fab resume goes on"
    return f"{found.n} visits gave no narrower interval{width}: try a quieter time"
