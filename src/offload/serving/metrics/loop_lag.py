"""The lag of the event loop: how late its 10 ms timer fires. Standard library only.

The timer pauses while there are no requests, so an idle server uses no CPU.

Events that become ready while the loop is blocked wait until it is free. So each 10 ms of a block
add one sample: the block's remaining duration at that moment. This keeps the samples uniform in
time, regardless of how long the loop is blocked.
"""

from __future__ import annotations

import math
from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from offload.serving.metrics.samples import Samples

INTERVAL = 0.01  # s
QUIET = 0.3  # s without a request until the timer pauses: before the next server's window
SHARES = {"p50": 0.5, "p99": 0.99, "max": 1.0}

_samples = Samples(2)
_paused: list[Callable[[], object]] = []  # functions that restart paused timers
_requested = -math.inf  # when the last request came


def watch(
    loop: AbstractEventLoop,
    pauses: bool = True,
    on_sample: Callable[[], object] | None = None,
    count_inside: Callable[[], int] = lambda: 0,
) -> None:
    """Sample the lag of a loop while it runs. With `pauses` the timer pauses without requests.

    `on_sample` is called on the loop whenever the timer fires, and `count_inside` returns how many
    requests have not ended: they may take long.
    """
    due = monotonic() + INTERVAL

    def tick() -> None:
        nonlocal due
        now = monotonic()
        _samples.add(due, max(0.0, now - due))
        while (due := due + INTERVAL) <= now:
            _samples.add(due, now - due)
        if on_sample is not None:
            on_sample()
        if pauses and now - _requested > QUIET and not count_inside():
            _paused.append(resume)
            return
        due = now + INTERVAL  # not the old due time plus 10 ms: epoll waits for whole milliseconds
        loop.call_later(INTERVAL, tick)

    def resume() -> None:
        nonlocal due
        due = (
            monotonic() + INTERVAL
        )  # of the request, which may block the loop before `schedule` runs
        loop.call_soon_threadsafe(schedule)

    def schedule() -> None:
        loop.call_later(max(0.0, due - monotonic()), tick)

    schedule()


def note_request() -> None:
    """Note a request, and restart a paused timer. Any thread may call this."""
    global _requested
    _requested = monotonic()
    while _paused:
        with suppress(IndexError, RuntimeError):  # another thread took it, or its loop is closed
            _paused.pop()()


def between(start: float, end: float) -> dict[str, float | None]:
    """Return a window's nearest-rank percentiles in ms; None if it has no samples or is too old."""
    return _summary(_samples.between(start, end) or [])


def overall() -> dict[str, float | None]:
    """Return the percentiles of all stored samples, like `between`."""
    return _summary(_samples.rows())


def _summary(rows: list[tuple[float, ...]]) -> dict[str, float | None]:
    lags = sorted(lag for _, lag in rows)
    return {
        f"loop_lag_{name}_ms": round(1000 * lags[math.ceil(share * len(lags)) - 1], 3)
        if lags
        else None
        for name, share in SHARES.items()
    }
