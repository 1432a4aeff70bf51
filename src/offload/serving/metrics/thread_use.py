"""Threads: how many of anyio's are in use, or their limit; how often threads return to the loop.

Starlette and FastAPI run `def` endpoints in these threads, 40 by default. anyio is not imported
here; if the application has not imported it, it has no such limit. Standard library only.
"""

from __future__ import annotations

import os
import sys
import threading
from asyncio import AbstractEventLoop
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic
from typing import Any

from offload.serving.metrics.samples import Samples

# The variables with the number of threads of anyio and of asyncio, if the server sets it.
TOKENS, EXECUTOR_THREADS = "SERVER_TOKENS", "SERVER_EXECUTOR_THREADS"
POOLS = {"anyio_threads": "AnyIO worker thread", "asyncio_threads": "asyncio_"}

_samples = Samples(4)
_handovers = Samples(2)
_handed_over = 0


class Watch:
    """The limiter of one event loop: `find` it in a request, then `sample` it from a timer."""

    def __init__(self) -> None:
        self._limiter: Any = None

    def find(self) -> None:
        """Find the limiter of the running loop, from within a task of it, and set its number."""
        if self._limiter is None and (anyio := sys.modules.get("anyio.to_thread")) is not None:
            current = getattr(anyio, "current_default_thread_limiter", None)
            self._limiter = None if current is None else current()
            if self._limiter is not None and (tokens := os.environ.get(TOKENS)) is not None:
                self._limiter.total_tokens = int(tokens)

    def sample(self) -> None:
        """Keep the current numbers of threads in use, of all threads, and of waiting calls."""
        if self._limiter is not None:
            seen = self._limiter.statistics()
            total = float(seen.total_tokens)  # may be infinite
            _samples.add(monotonic(), seen.borrowed_tokens, total, seen.tasks_waiting)


def between(start: float, end: float) -> dict[str, Any] | None:
    """Return the use of the limit in a window; None without samples.

    `full` is the share of samples in which all threads were in use, `waiting` the maximum number of
    calls that waited for a thread.
    """
    rows = _samples.between(start, end)
    if not rows:
        return None
    total = rows[-1][2]
    return {
        "total": int(total) if total < 1 << 31 else None,
        "used": int(max(row[1] for row in rows)),
        "waiting": int(max(row[3] for row in rows)),
        "full": round(sum(row[1] >= row[2] for row in rows) / len(rows), 4),
    }


def set_executor_threads(loop: AbstractEventLoop) -> None:
    """Set the default executor of a loop, with as many threads as the variable says."""
    if (found := os.environ.get(EXECUTOR_THREADS)) is not None:
        loop.set_default_executor(ThreadPoolExecutor(int(found), "asyncio"))


def threads() -> dict[str, int]:
    """Count the threads of the two pools that async applications use, by their names."""
    names = [thread.name for thread in threading.enumerate()]
    return {key: sum(name.startswith(start) for name in names) for key, start in POOLS.items()}


# Handovers: each call that a thread has run returns to the event loop once


def count_handovers(loop: AbstractEventLoop) -> None:
    """Count the calls that threads hand over to a loop from now on."""
    hand_over = loop.call_soon_threadsafe

    def count(*arguments: Any, **named: Any) -> Any:
        global _handed_over
        _handed_over += 1  # of threads without a GIL some may be lost
        return hand_over(*arguments, **named)

    with suppress(AttributeError):  # a loop with slots only
        setattr(loop, "call_soon_threadsafe", count)  # noqa: B010 - mypy refuses a method


def sample_handovers() -> None:
    """Keep the number of handovers so far; call it on the loop's timer."""
    _handovers.add(monotonic(), _handed_over)


def handovers_between(start: float, end: float) -> int | None:
    """Return the number in a window; None without samples."""
    rows = _handovers.between(start, end) or []
    return None if len(rows) < 2 else round(rows[-1][1] - rows[0][1])
