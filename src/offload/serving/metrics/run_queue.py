"""The run queue: how long this thread has waited for a CPU so far. Standard library only."""

from __future__ import annotations

import math
import os
import threading

FILE = "/proc/thread-self/schedstat"  # ns on a CPU, ns waiting for one, time slices
ASKED = "SERVER_QUEUE_CLOCK" in os.environ  # two readings a task take 3 us


class _Thread(threading.local):
    file: int | None = None


_thread = _Thread()


def waited() -> float:
    """Give it in seconds; nan where the kernel does not tell (no Linux), or nobody asked for it."""
    if not ASKED:
        return math.nan
    try:
        if _thread.file is None:
            _thread.file = os.open(FILE, os.O_RDONLY | os.O_CLOEXEC)  # this thread's for ever
        ran, queued, _ = os.pread(_thread.file, 64, 0).split()
    except (OSError, ValueError):
        return math.nan
    return int(queued) / 1e9 if int(ran) else math.nan  # all are 0 in a kernel that counts nothing
