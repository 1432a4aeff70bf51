"""Traps: functions that work alone, and fail or leak under some strategies."""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

STABLE = True
STEPS = 60_000  # loop steps in Python: about 4 ms
LEAKED = 20_000  # bytes per call
LINES = 200  # printed per call
FAILS_EACH = 50  # every 50th call fails
PARTS = 4  # threads that the function starts
PART_S = 0.01
PAUSE_S = 0.002
POLL_S = 0.001
POLLS = 20
OBJECTS = 40_000
DEADLINE_S = 5.0

_leaked: list[bytes] = []
_calls = itertools.count(1)
_state = {"total": 0}


def leaks() -> str:
    """Compute for about 4 ms, and leak 20 KB."""
    _leaked.append(bytes(LEAKED))
    return _sum(STEPS)


def threads_in_each_call() -> str:
    """Start four threads that wait 10 ms, and join them."""
    with ThreadPoolExecutor(PARTS) as threads:
        return " ".join(threads.map(_part, range(PARTS)))


def threads_of_the_process() -> str:
    """Wait 10 ms in each of four pool threads; all calls of the process share the pool."""
    return " ".join(_threads().map(_part, range(PARTS)))


def prints() -> str:
    """Compute for about 4 ms, and print 200 lines."""
    for number in range(LINES):
        print(f"line {number} of a handler that was never cleaned up")
    return _sum(STEPS)


def fails_sometimes() -> str:
    """Wait 10 ms; every 50th call in a process raises an error."""
    time.sleep(PART_S)
    if next(_calls) % FAILS_EACH == 0:
        raise RuntimeError("the service is not available")
    return "available"


def unsafe_in_threads() -> str:
    """Sum numbers in a global variable: concurrent threads return wrong sums."""
    _state["total"] = 0
    for number in range(STEPS // 4):
        _state["total"] += number
        if number == STEPS // 8:
            time.sleep(PAUSE_S)
    return str(_state["total"])


def main_thread_only() -> str:
    """Set a deadline with a signal, which fails outside the main thread."""
    before = signal.signal(signal.SIGALRM, _timed_out)
    signal.setitimer(signal.ITIMER_REAL, DEADLINE_S)
    try:
        time.sleep(PART_S)
        return _sum(STEPS)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def runs_its_own_loop() -> str:
    """Run a coroutine with asyncio.run, which fails while an event loop is running."""
    return asyncio.run(_awaited())


def polls() -> str:
    """Poll: wait 20 ms in 20 steps of 1 ms."""
    for _ in range(POLLS):
        time.sleep(POLL_S)
    return "polled"


def collects_garbage() -> str:
    """Create 40,000 objects, and collect garbage twice, which holds the GIL for a long time."""
    linked: list[list[object]] = [[] for _ in range(OBJECTS)]
    for one, other in itertools.pairwise(linked):
        one.append(other)
    gc.collect()
    found = len(linked)
    linked.clear()
    gc.collect()
    return str(found)


def _sum(steps: int) -> str:
    total = 0
    for number in range(steps):
        total = (total + number * number) % 1_000_003
    return str(total)


def _part(number: int) -> str:
    time.sleep(PART_S)
    return str(number)


async def _awaited() -> str:
    await asyncio.sleep(PART_S)
    return _sum(STEPS)


def _timed_out(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"{DEADLINE_S:g} s are over")


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(PARTS)
