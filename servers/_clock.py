"""The clocks of a task: what it took of its slot and of the CPU, read where it runs.

A slot runs one task at a time: a worker, or the one thread of sync and of loop. Its time for a task
is what a saturated server spends on one, so that slots / mean slot time is its capacity: from the
end of the task before, or from its own beginning when the slot was idle for longer than IDLE.
"""

from __future__ import annotations

import math
import threading
from time import monotonic, thread_time

import tasks
from servers import _probe
from servers._samples import Samples
from tasks import TaskFailed

IDLE = 0.05  # s; a guess: a slot that waits so long for its next task had none waiting

Timed = tuple[bytes | TaskFailed, float, float, float, bool]  # outcome, end, slot s, CPU s, GIL


class _Slot(threading.local):
    ended = -math.inf
    running = 0
    begun = 0


_slot = _Slot()
_samples = Samples(3)


def call(task: str) -> Timed:
    """Run a task to its end in this thread, which is a slot."""
    begin, cpu = monotonic(), thread_time()
    outcome: bytes | TaskFailed
    try:
        outcome = tasks.call(task)
    except TaskFailed as error:
        outcome = error
    return _timed(outcome, begin, cpu)


async def acall(task: str) -> Timed:
    """Run a task on this event loop; what it took is not known when others ran meanwhile."""
    begin, cpu = monotonic(), thread_time()
    _slot.running += 1
    _slot.begun += 1
    alone, begun = _slot.running == 1, _slot.begun
    outcome: bytes | TaskFailed
    try:
        outcome = await tasks.acall(task)
    except TaskFailed as error:
        outcome = error
    finally:
        _slot.running -= 1
    timed = _timed(outcome, begin, cpu)
    if alone and _slot.begun == begun:
        return timed
    return timed[0], timed[1], math.nan, math.nan, timed[4]


def _timed(outcome: bytes | TaskFailed, begin: float, cpu: float) -> Timed:
    cpu = thread_time() - cpu
    end = monotonic()
    slot = end - (_slot.ended if begin - _slot.ended < IDLE else begin)
    _slot.ended = end
    return outcome, end, slot, cpu, _probe.gil_enabled()


def note(timed: Timed) -> bytes | TaskFailed:
    """Keep what a task took, and give what it returned or raised."""
    outcome, end, slot, cpu, gil = timed
    _samples.add(end, slot, cpu)
    if gil:
        _probe.facts["gil_enabled"] = True
    return outcome


def between(begin: float, end: float) -> dict[str, float | None]:
    """Count the tasks that ended in a window, failed ones too, with their mean times in seconds.

    A mean is None without tasks, and where tasks of a loop ran at the same time; all but the
    slots are None when the window is older than what is kept.
    """
    rows = _samples.between(begin, end)
    workers = _probe.facts.get("workers")
    return {
        "tasks": None if rows is None else len(rows),
        "slots": workers if isinstance(workers, int) else 1,
        "slot_s": _mean([row[1] for row in rows or []]),
        "task_cpu_s": _mean([row[2] for row in rows or []]),
    }


def _mean(values: list[float]) -> float | None:
    mean = math.fsum(values) / len(values) if values else math.nan
    return None if math.isnan(mean) else round(mean, 9)
