"""The comparison of two cases, paired by the rounds in which both were measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from offload.bench.records.record import Record
from offload.bench.records.run_records import Value, of_rate, pairs_by_round
from offload.bench.stats import paired_test, sequential
from offload.bench.stats.paired_test import (
    DISTURBED,
    FASTER,
    SAME,
    SLOWER,
    TINY,
    UNRESOLVED,
    Verdict,
)
from offload.flags import Flag
from offload.units import percent

EFFECT, ROUGH = paired_test.EFFECT, 0.05  # the smallest difference that matters; ROUGH with quick
MAX_OTHERS = 1 / 3  # share of the machine's CPU, in half of the windows
MAX_STEAL = 0.05  # share of the machine's CPU, in half of the windows
MAX_DIFFERENCE = 0.10  # share of the machine's CPU, between the means of the two cases
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
    with `apart` are used only if the cases have no other rounds.
    """
    if value is rate_of and pairs_by_round(of_rate(one), of_rate(other), value):
        one, other = of_rate(one), of_rate(other)
    is_quick = any(record.trial.quick for record in one)
    found = paired_test.compare(
        pairs_by_round(one, other, value),
        sequential.design(is_quick).level if level is None else level,
        ROUGH if is_quick else EFFECT,
    )
    if flag := disturbance(one, other):
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


def disturbance(one: Sequence[Record], other: Sequence[Record]) -> Flag | None:
    """Return the reason if the windows of two cases cannot be compared, else None."""
    windows = [*one, *other]
    remedy = "end the other processes, or measure at a quieter time"
    others, steal = _known(windows, "others_cpu"), _known(windows, "steal")
    if _in_half(others, MAX_OTHERS):
        used = f"other processes used {percent(statistics.median(others))} of the machine's CPU"
        return Flag("disturbed", used, remedy)
    if _in_half(steal, MAX_STEAL):
        kept = f"the hypervisor kept {percent(statistics.median(steal))} of the machine's CPU"
        return Flag("disturbed", kept, "measure at a quieter time")
    first, second = _known(one, "others_cpu"), _known(other, "others_cpu")
    if not first or not second:
        return None
    means = statistics.fmean(first), statistics.fmean(second)
    if abs(means[0] - means[1]) > MAX_DIFFERENCE:
        shares = (
            f"{percent(means[0])} of the machine's CPU during one case, "
            f"{percent(means[1])} during the other"
        )
        return Flag("disturbed", f"other processes used {shares}", remedy)
    return None


def _known(windows: Sequence[Record], name: str) -> list[float]:
    """Return the known values of a share of the machine's CPU, by its field in `HostUse`."""
    shares = (getattr(record.resources.host, name) for record in windows)
    return [share for share in shares if share is not None]


def _in_half(shares: Sequence[float], limit: float) -> bool:
    return bool(shares) and sum(share > limit for share in shares) >= len(shares) / 2


def is_client_bound(windows: Sequence[Record]) -> bool:
    """Whether the load tool limited the rate in half of the windows."""
    bound = sum(any(flag.kind == CLIENT_BOUND for flag in r.flags) for r in windows)
    return bool(windows) and bound >= len(windows) / 2
