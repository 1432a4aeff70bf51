"""The rate of a window, from when the requests that touch it began and ended."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import fsum

STEPS = 8  # ends tried over one response time


def residence_spread(
    began: Sequence[float], ended: Sequence[float], start: float, end: float
) -> float | None:
    """Give completed requests a second from `start` to `end`; None for an empty window.

    Each request adds its unit evenly over [began, ended], and the rate is the sum of what falls
    into the window over the window's length. Requests that were in flight at either end must be
    among them; one begins when it is sent, for what waits to connect is not in the server. The sum
    of n such shares is what operational analysis calls completions, without the step of one batch
    of users at each end that counting has.
    """
    if end <= start:
        return None
    return _inside(began, ended, start, end) / (end - start)


def in_flight(
    began: Sequence[float], ended: Sequence[float], start: float, end: float
) -> float | None:
    """Give how many requests were under way from `start` to `end`, on average; None without time.

    By Little's law it is X R, of the rate in the window and the mean time of what that rate counts.
    The mean of the requests that ended in the window is of another time: from one response earlier.
    """
    if end <= start:
        return None
    pairs = zip(began, ended, strict=True)
    return fsum(max(0.0, min(e, end) - max(b, start)) for b, e in pairs) / (end - start)


def quantum(began: Sequence[float], ended: Sequence[float], start: float, end: float) -> float:
    """Give what is left of the quantisation, as a share of the rate.

    It is half the range that the rate has when the window ends up to one mean response time
    earlier: nothing for a steady flow, up to one batch for a server whose answers come in bursts.
    """
    whole = _inside(began, ended, start, end)
    if not whole:
        return 1.0
    mean = (fsum(ended) - fsum(began)) / len(ended)
    back = min(mean, (end - start) / 2)
    late = [(b, e) for b, e in zip(began, ended, strict=True) if e > end - back and b < end]
    begins, ends = [b for b, _ in late], [e for _, e in late]
    rates = []
    for step in range(STEPS):
        earlier = end - back * step / STEPS
        rates.append((whole - _inside(begins, ends, earlier, end)) / (earlier - start))
    rates.append(whole / (end - start))
    return (max(rates) - min(rates)) / 2 / rates[-1]


def quantum_of_count(users: int, completed: int) -> float | None:
    """Give the quantisation of completed / elapsed: one batch of users, as a share."""
    return users / completed if completed else None


def between_completions(
    ended: Sequence[float], start: float, end: float
) -> tuple[float | None, float]:
    """Give (n - 1) / time from the first of n completions in a window to the last; and its quantum.

    It is the rate of a server whose completions are even, whoever waits outside. The quantum is
    the widest gap's excess over the mean gap, as a share of that time. None below two completions.
    """
    inside = sorted(e for e in ended if start <= e <= end)
    if len(inside) < 2 or inside[-1] == inside[0]:
        return None, 1.0
    lasted = inside[-1] - inside[0]
    widest = max(b - a for a, b in pairwise(inside))
    return (len(inside) - 1) / lasted, (widest - lasted / (len(inside) - 1)) / lasted


def _inside(began: Sequence[float], ended: Sequence[float], start: float, end: float) -> float:
    """Add up the shares of all requests that lie between `start` and `end`."""
    total = 0.0
    for b, e in zip(began, ended, strict=True):
        if b >= start and e <= end:
            if e > start or b > start or e < end:
                total += 1.0
        elif e > start and b < end:
            total += (min(e, end) - max(b, start)) / (e - b)
    return total
