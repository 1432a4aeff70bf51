"""The run queue: the total time this thread has waited for a CPU. Standard library only."""

from __future__ import annotations

import math
import os
import threading

FILE = "/proc/thread-self/schedstat"  # ns on a CPU, ns waiting for one, time slices
ENABLED = "SERVER_QUEUE_CLOCK" in os.environ  # two readings per task take 3 us


class _Thread(threading.local):
    file: int | None = None


_thread = _Thread()


def wait_time() -> float:
    """Return the time in seconds; nan if unavailable (not Linux) or not ENABLED."""
    if not ENABLED:
        return math.nan
    try:
        if _thread.file is None:
            _thread.file = os.open(FILE, os.O_RDONLY | os.O_CLOEXEC)  # stays open for this thread
        ran, queued, _ = os.pread(_thread.file, 64, 0).split()
    except (OSError, ValueError):
        return math.nan
    return int(queued) / 1e9 if int(ran) else math.nan  # all are 0 if the kernel does not count
