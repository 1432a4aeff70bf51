"""The clocks of a task: its slot time and CPU time, read where it runs.

A slot runs one task at a time: a worker, or the single thread of `sync` and `loop`. The slot time
of a task is what a saturated server spends on it, so that slots / mean slot time is the capacity.
It starts at the end of the previous task, or at the task's start if the slot was idle for more than
IDLE. The wall time always starts at the task's start. Both end with the task. The queued time is
how long the thread was runnable without a free CPU.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import Callable, Coroutine
from time import monotonic, thread_time
from typing import Any

from offload import tasks
from offload.serving.metrics import own_gil, probe
from offload.serving.metrics.samples import Samples
from offload.tasks import TaskFailed

RunCoroutine = Callable[[Coroutine[Any, Any, Any]], Any]
IDLE = 0.05  # s; a guess: after a longer gap no task was waiting
Row = tuple[float, float, float, float, float]  # end, then in s: slot, CPU, wall, queued
TimedResult = tuple[bytes | TaskFailed, Row, str | None]  # result, times, and the GIL's state


class _Slot(threading.local):
    ended = -math.inf
    running = 0
    started = 0


_slot = _Slot()
_samples = Samples(5)


def call(task: str, run: RunCoroutine = asyncio.run) -> TimedResult:
    """Run a task to its end in this thread, which is a slot; return its result and times.

    `run` runs a coroutine to its end, if the task is one.
    """
    queued, start, cpu = _read_clocks()
    outcome: bytes | TaskFailed
    try:
        outcome = tasks.call(task, run)
    except TaskFailed as error:
        outcome = error
    return _finish(outcome, queued, start, cpu)


async def acall(task: str) -> TimedResult:
    """Run a task on this event loop; its times are unknown if other tasks ran concurrently."""
    queued, start, cpu = _read_clocks()
    _slot.running += 1
    _slot.started += 1
    alone, started = _slot.running == 1, _slot.started
    outcome: bytes | TaskFailed
    try:
        outcome = await tasks.acall(task)
    except TaskFailed as error:
        outcome = error
    finally:
        _slot.running -= 1
    timed = _finish(outcome, queued, start, cpu)
    if alone and _slot.started == started:
        return timed
    return timed[0], (timed[1][0], math.nan, math.nan, math.nan, math.nan), timed[2]


def _read_clocks() -> tuple[float, float, float]:
    return wait_time(), monotonic(), thread_time()


def _finish(outcome: bytes | TaskFailed, queued: float, start: float, cpu: float) -> TimedResult:
    cpu = thread_time() - cpu
    end = monotonic()
    queued = wait_time() - queued
    slot = end - (_slot.ended if start - _slot.ended < IDLE else start)
    _slot.ended = end
    return outcome, (end, slot, cpu, end - start, queued), own_gil.enabled_by()


def record(timed: TimedResult) -> bytes | TaskFailed:
    """Record a task's times, and return its result or its failure."""
    outcome, row, gil = timed
    _samples.add(*row)
    if gil is not None:
        probe.note_gil(gil)
    return outcome


def between(start: float, end: float) -> dict[str, float | None]:
    """Count the tasks that ended in a window, including failures, with mean times in seconds.

    A mean is None without tasks, and if tasks of a loop ran concurrently. Everything except the
    slots is None if the window is older than the stored samples.
    """
    rows = _samples.between(start, end)
    workers = probe.facts.get("workers")
    return {
        "tasks": None if rows is None else len(rows),
        "slots": workers if isinstance(workers, int) else 1,
        "slot_s": _mean([row[1] for row in rows or []]),
        "task_cpu_s": _mean([row[2] for row in rows or []]),
        "task_s": _mean([row[3] for row in rows or []]),
        "task_queued_s": _mean([row[4] for row in rows or []]),
    }


def each(start: float, end: float) -> list[tuple[float, float]] | None:
    """List start and end of each task entirely within a window; None if unknown."""
    rows = _samples.between(start, end)
    if rows is None or any(math.isnan(row[3]) for row in rows):
        return None
    spans = [(round(row[0] - row[3], 6), round(row[0], 6)) for row in rows]
    return [span for span in spans if span[0] >= start]


def _mean(values: list[float]) -> float | None:
    mean = math.fsum(values) / len(values) if values else math.nan
    return None if math.isnan(mean) else round(mean, 9)


# The run queue: the total time this thread has waited for a CPU
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
