"""Warnings on a row: the flags of its records, and findings from all records together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from offload.bench.analysis import capacity
from offload.bench.analysis.comparison import rate_of
from offload.bench.records.record import Record
from offload.bench.records.run_records import by_round, of_rate
from offload.bench.stats import estimate as estimates
from offload.bench.stats import sequential
from offload.flags import Flag
from offload.reports import provenance
from offload.reports.rows import Row
from offload.units import percent

TOOL_DIFFERENCE = 0.03  # relative, between the rates of the published tool and of builtin


def row_warnings(row: Row) -> list[str]:
    """Return the warnings on a row: the newest flag of each kind, and findings from all records."""
    return [*_flags(row), *_derived(row)]


def count_flags(records: Sequence[Record], what: str) -> list[str]:
    """Return the newest flag of each kind, with the number of records that have it.

    `what` is a plural noun for the records.
    """
    kinds = _by_kind(records).values()
    return [f"{flags[-1]} ({len(flags)} of {len(records)} {what})" for flags in kinds]


def of_cases(cases: Iterable[tuple[str, Sequence[Record]]]) -> list[str]:
    """Return the warnings on the windows of several named cases.

    These are the number of failed loads of each case, and the flags of all windows together.
    """
    named = [*cases]
    failed = [(name, failed_loads(windows)) for name, windows in named]
    problems = [f"problem: {name}: {found}" for name, found in failed if found is not None]
    every = [record for _, windows in named for record in windows]
    return [*problems, *count_flags(every, "windows")]


def failed_loads(records: Sequence[Record]) -> str | None:
    """Return how many loads of a case failed, with the newest reason; None if none did.

    The figures of the case are those of its other loads.
    """
    problems = [record.problem for record in records if record.problem is not None]
    if not problems:
        return None
    return f"{len(problems)} of {len(records)} loads failed and are left out: {problems[-1]}"


def _flags(row: Row) -> Iterator[str]:
    for flags in _by_kind(row.records).values():
        often = f" (in {len(flags)} of {len(row.records)} runs)" if len(flags) > 1 else ""
        yield f"{flags[-1]}{often}"


def _by_kind(records: Sequence[Record]) -> dict[str, list[Flag]]:
    """Return the newest flag of each kind in each record that has one."""
    flags: dict[str, list[Flag]] = {}
    for record in records:
        for kind, flag in {flag.kind: flag for flag in record.flags}.items():
            flags.setdefault(kind, []).append(flag)
    return flags


def tool_difference(row: Row) -> float | None:
    """Return the relative difference of the published tool's run from the rounds.

    None if it is within TOOL_DIFFERENCE.
    """
    estimate = row.estimate
    if row.long is None or not row.long.result.rate or estimate is None or not estimate.value:
        return None
    apart = row.long.result.rate / estimate.value - 1
    is_near = -TOOL_DIFFERENCE - _ab_loss(row.long) <= apart <= TOOL_DIFFERENCE
    return None if is_near else apart


def above_ceiling(row: Row) -> str | None:
    """Return a warning if the rate and its whole interval are above the ceiling, else None."""
    ceiling, estimate = row.ceiling, row.estimate
    if ceiling is None:
        return None
    low = row.rate if estimate is None or estimate.low is None else estimate.low
    if (row.rate or 0.0) <= capacity.ABOVE * ceiling.rate or (low or 0.0) <= ceiling.rate:
        return None
    what = f"the rate is above its {ceiling.kind} ceiling of {ceiling.rate:.2f}/s"
    return f"ceiling: {what}: check the task, and the workers that its server reports"


def _derived(row: Row) -> Iterator[str]:
    if failed := failed_loads(row.records):
        yield f"problem: {failed}"
    if (importer := provenance.gil_enabled_by(row.first)) is not None:
        yield f"gil: {importer} turned the GIL on: this row is not free-threaded"
    estimate, design = row.estimate, sequential.design(row.first.trial.quick)
    if estimate is not None and estimate.n < design.counts[0]:
        yield f"rounds: {estimate.n} of {design.counts[0]} or more: offload resume continues it"
    rounds = by_round(of_rate(row.windows), rate_of)
    for index in estimates.outliers([*rounds.values()]):
        number, rate = [*rounds][index][2], [*rounds.values()][index]
        yield f"outlier: round {number} has {rate:.2f}/s, far from the others"
    if row.long is not None and (apart := tool_difference(row)) is not None:
        yield (
            f"tools: {row.long.load.driver}'s rate differs by {percent(apart, 1, '+')} from the "
            "rounds by builtin: see its output"
        )
    if (above := above_ceiling(row)) is not None:
        yield above


def _ab_loss(long: Record) -> float:
    """Return the share of its rate that ab loses, because its time includes more requests.

    When ab stops, one request per user is in flight.
    """
    if long.load.driver != "ab" or not long.result.completed:
        return 0.0
    return long.case.users / (long.result.completed + long.case.users)
