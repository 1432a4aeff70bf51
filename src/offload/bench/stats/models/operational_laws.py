"""Operational laws: check a rate against its response time, and compute its upper bounds.

Times are in seconds, rates in requests/s. If an input is None (unknown), so is the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

POOL, USERS, CPU = "pool", "users", "cpu"


@dataclass(frozen=True)
class Ceiling:
    """An upper bound of the rate in requests/s; `kind` names the limiting resource."""

    kind: str
    rate: float


def little_ratio(rate: float | None, response_s: float | None, users: float | None) -> float | None:
    """Return X R / c: 1 if rate x mean response time equals the number of concurrent `users`.

    The ratio is meaningless if the response time was itself derived by Little's law. Raise
    ValueError for negative numbers. Source: Little 1961, A proof for the queuing formula L = lambda
    W.

    >>> round(little_ratio(14.29, 1.75, 25), 3)
    1.0
    """
    _check(rate, response_s, users)
    if rate is None or response_s is None or not users:
        return None
    return rate * response_s / users


def ceilings(
    *,
    workers: float | None = None,
    service_s: float | None = None,
    users: float | None = None,
    cores: float | None = None,
    cpu_s: float | None = None,
) -> list[Ceiling]:
    """Return the ceilings whose inputs are known, the lowest first.

    pool: workers / service_s, if a request occupies one worker for `service_s`;
    users: users / service_s, if each user has one request in flight, which takes `service_s` or
    longer;
    cpu: cores / cpu_s, if a request takes `cpu_s` of CPU time in all processes of the server.
    A time of 0 has no ceiling. Raise ValueError for negative numbers.

    Source: the operational laws of Denning and Buzen 1978, The operational analysis of queueing
    network models (utilisation law and asymptotic bounds).

    >>> [(each.kind, round(each.rate, 2)) for each in ceilings(workers=4, service_s=0.28, users=25)]
    [('pool', 14.29), ('users', 89.29)]
    """
    _check(workers, service_s, users, cores, cpu_s)
    bounds = [(POOL, workers, service_s), (USERS, users, service_s), (CPU, cores, cpu_s)]
    known = [
        Ceiling(kind, count / seconds)
        for kind, count, seconds in bounds
        if count is not None and seconds  # neither None nor 0
    ]
    return sorted(known, key=lambda ceiling: ceiling.rate)


def share_of_ceiling(rate: float | None, known: Sequence[Ceiling]) -> float | None:
    """Return `rate` as a share of the lowest ceiling; more than 1 indicates an error."""
    _check(rate)
    lowest = min((ceiling.rate for ceiling in known), default=None)
    return None if rate is None or not lowest else rate / lowest


def _check(*numbers: float | None) -> None:
    if not all(number is None or 0 <= number < math.inf for number in numbers):
        raise ValueError(
            f"rates, times and counts must be numbers of 0 or more or None, not {numbers}"
        )
