"""The audit of a rate: whether its response time agrees, and what bounds it at all.

Times are seconds, rates requests a second. What is not known is None, and None comes out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

POOL, USERS, CPU = "pool", "users", "cpu"


@dataclass(frozen=True)
class Ceiling:
    """A rate that cannot be exceeded, in requests a second, and by `kind` what bounds it."""

    kind: str
    rate: float


def little_ratio(rate: float | None, response_s: float | None, users: float | None) -> float | None:
    """Give X R / c: 1 when rate and mean response time tell of the same `users` in the server.

    It says nothing of a response time that was itself derived by Little's law. Raise ValueError
    for numbers below 0. Source: Little 1961, A proof for the queuing formula L = lambda W.
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
    """Give the ceilings that are known, the lowest first.

    pool: workers / service_s, where a request keeps one worker for `service_s`;
    users: users / service_s, where each has one request under way and none is faster than that;
    cpu: cores / cpu_s, where a request takes `cpu_s` of CPU time in all processes of the server.
    A time of 0 is no bound. Raise ValueError for numbers below 0.

    Source: the operational laws of Denning and Buzen 1978, The operational analysis of queueing
    network models (utilisation law and asymptotic bounds).
    """
    _check(workers, service_s, users, cores, cpu_s)
    bounds = [(POOL, workers, service_s), (USERS, users, service_s), (CPU, cores, cpu_s)]
    known = [
        Ceiling(kind, count / seconds)
        for kind, count, seconds in bounds
        if count is not None and seconds  # neither None nor 0
    ]
    return sorted(known, key=lambda ceiling: ceiling.rate)


def reached(rate: float | None, known: Sequence[Ceiling]) -> float | None:
    """Give the share of the lowest ceiling that `rate` reaches: 1 is all; more is an error."""
    _check(rate)
    lowest = min((ceiling.rate for ceiling in known), default=None)
    return None if rate is None or not lowest else rate / lowest


def _check(*numbers: float | None) -> None:
    if not all(number is None or 0 <= number < math.inf for number in numbers):
        raise ValueError(f"rates, times and counts are numbers from 0 on or None, not {numbers}")
