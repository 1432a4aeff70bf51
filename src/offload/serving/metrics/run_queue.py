"""The run queue: the total time this thread has waited for a CPU. Standard library only."""

from __future__ import annotations

import math
import os
import threading

FILE = "/proc/thread-self/schedstat"  # ns on a CPU, ns waiting for one, time slices
ENABLED = "SERVER_QUEUE_CLOCK" in os.environ  # two readings per task take 3 us


class _File:
    """The open FILE of a thread, which is closed when the thread ends."""

    def __init__(self) -> None:
        self.descriptor = os.open(FILE, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


class _Thread(threading.local):
    file: _File | None = None


_thread = _Thread()


def wait_time() -> float:
    """Return the time in seconds; nan if unavailable (not Linux) or not ENABLED."""
    if not ENABLED:
        return math.nan
    try:
        if _thread.file is None:
            _thread.file = _File()
        _ran, queued, slices = os.pread(_thread.file.descriptor, 64, 0).split()
    except (OSError, ValueError):
        return math.nan
    # All are 0 if the kernel does not count. A new thread has slices before it has times.
    return int(queued) / 1e9 if int(slices) else math.nan
