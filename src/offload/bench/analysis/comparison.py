"""The comparison of two cases, paired by the rounds in which both were measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from offload.bench.analysis import disturbance
from offload.engine import decisions, intervals
from offload.engine.decisions import DISTURBED, FASTER, SAME, SLOWER, TINY, UNRESOLVED, Verdict
from offload.engine.record import Record, Value, by_round, of_rate, pairs_by_round
from offload.flags import Flag

EFFECT, ROUGH = decisions.EFFECT, 0.05  # the smallest difference that matters; ROUGH with quick
CLIENT_BOUND = "client-bound"


@dataclass(frozen=True)
class Comparison:
    """The comparison of case `other` with case `one`.

    `disturbed` is the reason if the measurement is invalid, else None. With `at_least` the load
    tool limited the faster case, so the true difference is at least as large. With
    `is_client_bound` the load tool limited one of the cases or both.
    """

    verdict: Verdict
    disturbed: Flag | None = None
    at_least: bool = False
    is_client_bound: bool = False


def rate_of(record: Record) -> float | None:
    """Return the rate of a window in requests/s."""
    return record.result.rate


def compare(
    one: Sequence[Record],
    other: Sequence[Record],
    value: Value = rate_of,
    level: float | None = None,
) -> Comparison:
    """Compare a value of two cases, paired by round, at the last level of their run's design.

    `level` overrides this level, because a run stops early only at a stricter one. Rates of rounds
    with `apart` are used only if the cases have no other rounds. Ratios of rates are corrected for
    the speed of the CPUs in both windows if it was measured.
    """
    if value is rate_of and pairs_by_round(of_rate(one), of_rate(other), value):
        one, other = of_rate(one), of_rate(other)
    is_quick = any(record.trial.quick for record in one)
    found = decisions.compare_pairs(
        pairs_by_round(one, other, value),
        intervals.sequential_design(is_quick).level if level is None else level,
        ROUGH if is_quick else EFFECT,
        work_by_round(one, other) if value is rate_of else None,
    )
    if flag := disturbance.between(one, other):
        return Comparison(replace(found, outcome=DISTURBED), flag)
    if value is not rate_of:
        return Comparison(found)
    bound = is_client_bound(one), is_client_bound(other)
    if found.outcome in (SAME, TINY) and any(bound):  # the load tool may limit both
        return Comparison(replace(found, outcome=UNRESOLVED), is_client_bound=True)
    if found.outcome in (FASTER, SLOWER):
        faster, slower = bound[::-1] if found.outcome == FASTER else bound
        if slower:  # its true rate is unknown
            return Comparison(replace(found, outcome=UNRESOLVED), is_client_bound=True)
        return Comparison(found, at_least=faster, is_client_bound=faster)
    return Comparison(found, is_client_bound=any(bound))


def work_by_round(
    one: Sequence[Record], other: Sequence[Record]
) -> list[tuple[float, float]] | None:
    """Return the CPU times of fixed work in each round in which both cases have a rate.

    None if one is unknown, as for records of earlier versions.
    """

    def work_s(record: Record) -> float | None:
        return record.resources.host.work_s if record.result.rate else None

    rounds = [which for which in by_round(one, rate_of) if which in by_round(other, rate_of)]
    first, second = by_round(one, work_s), by_round(other, work_s)
    if not all(which in first and which in second for which in rounds):
        return None
    return [(first[which], second[which]) for which in rounds]


def is_client_bound(windows: Sequence[Record]) -> bool:
    """Whether the load tool limited the rate in at least half of the windows."""
    bound = sum(any(flag.kind == CLIENT_BOUND for flag in r.flags) for r in windows)
    return bool(windows) and bound >= len(windows) / 2
