"""The lag of the event loop: how late its 10 ms timer fires. Standard library only.

What becomes ready while the loop is held waits until it is free. So every 10 ms of a hold is one
sample of how long it still lasted: the samples are even in time, however long the holds are.
"""

from __future__ import annotations

import math
from asyncio import AbstractEventLoop
from time import monotonic

from offload.serving.metrics.samples import Samples

EVERY = 0.01  # s
SHARES = {"p50": 0.5, "p99": 0.99, "max": 1.0}

_samples = Samples(2)


def watch(loop: AbstractEventLoop) -> None:
    """Sample the lag of a loop from now on, for as long as it runs."""
    due = monotonic() + EVERY

    def tick() -> None:
        nonlocal due
        now = monotonic()
        _samples.add(due, max(0.0, now - due))
        while (due := due + EVERY) <= now:
            _samples.add(due, now - due)
        due = now + EVERY  # not the old one and 10 ms: epoll waits for whole milliseconds
        loop.call_later(EVERY, tick)

    loop.call_later(EVERY, tick)


def between(begin: float, end: float) -> dict[str, float | None]:
    """Sum up a window by its nearest-rank percentiles in ms; None without a loop, or too old."""
    return _summary(_samples.between(begin, end) or [])


def so_far() -> dict[str, float | None]:
    """Sum up all that is kept, as `between`."""
    return _summary(_samples.rows())


def _summary(rows: list[tuple[float, ...]]) -> dict[str, float | None]:
    lags = sorted(lag for _, lag in rows)
    return {
        f"loop_lag_{name}_ms": round(1000 * lags[math.ceil(share * len(lags)) - 1], 3)
        if lags
        else None
        for name, share in SHARES.items()
    }
