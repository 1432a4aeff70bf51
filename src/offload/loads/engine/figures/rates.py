"""The rate of a window, from the start and end times of the requests that overlap it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import fsum

STEPS = 8  # earlier window ends within one response time


def residence_spread(
    started: Sequence[float], ended: Sequence[float], start: float, end: float
) -> float | None:
    """Return completed requests per second from `start` to `end`; None for an empty window.

    A request counts as the share of its own duration that is inside the window. The rate is the
    sum of these shares divided by the window's length. `started` and `ended` must include the
    requests that are in flight at either end of the window. A request starts when it is sent,
    because one that waits to connect is not in the server. Counting whole requests instead would
    change the rate by up to one batch of users at each end of the window.
    """
    if end <= start:
        return None
    return _inside(started, ended, start, end) / (end - start)


def in_flight(
    started: Sequence[float], ended: Sequence[float], start: float, end: float
) -> float | None:
    """Return the mean number of requests in flight from `start` to `end`; None if empty.

    By Little's law it equals X R: the rate in the window times the mean response time of the
    requests that the rate counts. The requests that ended in the window would be inaccurate: they
    describe a time that is earlier by one response time.
    """
    if end <= start:
        return None
    pairs = zip(started, ended, strict=True)
    return fsum(max(0.0, min(e, end) - max(b, start)) for b, e in pairs) / (end - start)


def quantum(started: Sequence[float], ended: Sequence[float], start: float, end: float) -> float:
    """Return the remaining quantization error of `residence_spread` as a share of the rate.

    The rate is calculated for STEPS windows that end up to one mean response time earlier. The
    error is half the difference of the largest and the smallest of these rates: 0 for a steady
    flow, up to one batch of users for a server that responds in bursts.
    """
    whole = _inside(started, ended, start, end)
    if not whole:
        return 1.0
    mean = (fsum(ended) - fsum(started)) / len(ended)
    back = min(mean, (end - start) / 2)
    late = [(b, e) for b, e in zip(started, ended, strict=True) if e > end - back and b < end]
    starts, ends = [b for b, _ in late], [e for _, e in late]
    rates = []
    for step in range(STEPS):
        earlier = end - back * step / STEPS
        rates.append((whole - _inside(starts, ends, earlier, end)) / (earlier - start))
    rates.append(whole / (end - start))
    return (max(rates) - min(rates)) / 2 / rates[-1]


def quantum_of_count(users: int, completed: int) -> float | None:
    """Return the quantization error of completed / elapsed: one batch of users, as a share."""
    return users / completed if completed else None


def between_completions(
    ended: Sequence[float], start: float, end: float
) -> tuple[float | None, float]:
    """Return (n - 1) / time from the first to the last of n completions, and its quantum.

    It is the rate of a server with even completions, and does not depend on users that cannot
    connect. The quantum is the widest gap minus the mean gap, as a share of that time. The rate is
    None below two completions.
    """
    inside = sorted(e for e in ended if start <= e <= end)
    if len(inside) < 2 or inside[-1] == inside[0]:
        return None, 1.0
    lasted = inside[-1] - inside[0]
    widest = max(b - a for a, b in pairwise(inside))
    return (len(inside) - 1) / lasted, (widest - lasted / (len(inside) - 1)) / lasted


def _inside(started: Sequence[float], ended: Sequence[float], start: float, end: float) -> float:
    """Sum the parts of all requests between `start` and `end`."""
    total = 0.0
    for b, e in zip(started, ended, strict=True):
        if b >= start and e <= end:
            if e > start or b > start or e < end:
                total += 1.0
        elif e > start and b < end:
            total += (min(e, end) - max(b, start)) / (e - b)
    return total
