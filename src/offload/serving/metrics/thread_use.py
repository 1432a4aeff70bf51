"""Threads: how many of anyio's are in use, or their limit; and how often others stop to wait.

Starlette and FastAPI run `def` endpoints in these threads, 40 by default. anyio is not imported
here; if the application has not imported it, it has no such limit. Standard library only.
"""

from __future__ import annotations

import os
import sys
import threading
from asyncio import AbstractEventLoop
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from offload.serving.metrics.samples import Samples

if sys.platform == "linux":
    from resource import RUSAGE_SELF, RUSAGE_THREAD, getrusage

# The variables with the number of threads of anyio and of asyncio, if the server sets it.
TOKENS, EXECUTOR_THREADS = "SERVER_TOKENS", "SERVER_EXECUTOR_THREADS"
POOLS = {"anyio_threads": "AnyIO worker thread", "asyncio_threads": "asyncio_"}

_samples = Samples(4)
_switches = Samples(2)


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


# Switches: a thread that waits for its next call, or for the GIL, is counted each time (Linux)


def sample_switches() -> None:
    """Keep how often threads other than this one have waited; call it on the loop's timer."""
    if sys.platform == "linux":
        others = getrusage(RUSAGE_SELF).ru_nvcsw - getrusage(RUSAGE_THREAD).ru_nvcsw
        _switches.add(monotonic(), others)


def switches_between(start: float, end: float) -> int | None:
    """Return the number in a window; None without samples, or if several loops ran."""
    rows = _switches.between(start, end) or []
    if len(rows) < 2 or rows[-1][1] < rows[0][1]:
        return None
    return round(rows[-1][1] - rows[0][1])
