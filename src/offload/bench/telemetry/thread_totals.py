"""Counters of all threads of processes, such as context switches (Linux).

/proc/PID/status has only the context switches of the main thread, and the counters of a thread are
removed when it ends. So the counters of each thread are read, and the last reading of a thread that
has ended is kept. A thread that starts and ends between two readings is not counted.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path

Counts = tuple[int, ...]
Read = Callable[[str], Counts | None]


class ThreadTotals:
    """The totals over all threads of the counters that `read` returns for a thread.

    The argument of `read` is the folder of the thread in /proc. With more threads than `most` the
    totals are unknown.
    """

    def __init__(self, read: Read, most: float = math.inf) -> None:
        self._read, self._most = read, most
        self._last: dict[tuple[int, int], Counts] = {}  # last reading by (pid, thread)
        self._replaced: Counts = ()  # total of ended threads whose number another thread has now
        self.threads = 0  # at the last update

    def update(self, pids: Iterable[int]) -> Counts | None:
        """Return the totals of all threads so far; None if no thread could be read."""
        threads = [(pid, thread) for pid in pids for thread in _threads(pid)]
        self.threads = len(threads)
        if self.threads > self._most:
            return None
        for pid, thread in threads:
            counts = self._read(f"/proc/{pid}/task/{thread}")
            if counts is None:  # it has just ended
                continue
            before = self._last.get((pid, thread), counts)
            if counts < before:
                self._replaced = _sum(self._replaced, before)
            self._last[pid, thread] = counts
        total = self._replaced
        for counts in self._last.values():
            total = _sum(total, counts)
        return total or None


def switches(thread: str) -> Counts | None:
    """Return the voluntary and involuntary context switches of a thread; None if it has ended."""
    try:
        text = Path(f"{thread}/status").read_bytes()
    except OSError:
        return None
    words = text[text.rfind(b"voluntary_ctxt_switches", 0, text.rfind(b"nonvol")) :].split()
    return (int(words[1]), int(words[3])) if len(words) >= 4 else None


def queued_ns(thread: str) -> Counts | None:
    """Return the time that a thread waited for a CPU, in ns; None if it has ended."""
    try:
        return (int(Path(f"{thread}/schedstat").read_bytes().split()[1]),)
    except (OSError, IndexError):
        return None


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 - faster
    except OSError:  # it has ended
        return []


def _sum(one: Counts, other: Counts) -> Counts:
    return tuple(map(sum, zip(one, other, strict=True))) if one else other
