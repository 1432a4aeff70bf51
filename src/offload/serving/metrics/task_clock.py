"""The clocks of a task: what it took of its slot and of the CPU, read where it runs.

A slot runs one task at a time: a worker, or the one thread of sync and of loop. Its time for a task
is what a saturated server spends on one, so that slots / mean slot time is its capacity: from the
end of the task before, or from its own beginning when the slot was idle for longer than IDLE.
Its wall time is from its own beginning always; what it queued is how long its thread was ready to
run and no CPU was free.
"""

from __future__ import annotations

import math
import threading
from time import monotonic, thread_time

from offload import tasks
from offload.serving.metrics import gil_state, probe, run_queue
from offload.serving.metrics.samples import Samples
from offload.tasks import TaskFailed

IDLE = 0.05  # s; a guess: a slot that waits so long for its next task had none waiting

Row = tuple[float, float, float, float, float]  # end, then in s: slot, CPU, wall, queued
Timed = tuple[bytes | TaskFailed, Row, str | None]  # the outcome, its row, and the GIL's state


class _Slot(threading.local):
    ended = -math.inf
    running = 0
    begun = 0


_slot = _Slot()
_samples = Samples(5)


def call(task: str) -> Timed:
    """Run a task to its end in this thread, which is a slot."""
    queued, begin, cpu = _begun()
    outcome: bytes | TaskFailed
    try:
        outcome = tasks.call(task)
    except TaskFailed as error:
        outcome = error
    return _timed(outcome, queued, begin, cpu)


async def acall(task: str) -> Timed:
    """Run a task on this event loop; what it took is not known when others ran meanwhile."""
    queued, begin, cpu = _begun()
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
    timed = _timed(outcome, queued, begin, cpu)
    if alone and _slot.begun == begun:
        return timed
    return timed[0], (timed[1][0], math.nan, math.nan, math.nan, math.nan), timed[2]


def _begun() -> tuple[float, float, float]:
    return run_queue.waited(), monotonic(), thread_time()


def _timed(outcome: bytes | TaskFailed, queued: float, begin: float, cpu: float) -> Timed:
    cpu = thread_time() - cpu
    end = monotonic()
    queued = run_queue.waited() - queued
    slot = end - (_slot.ended if begin - _slot.ended < IDLE else begin)
    _slot.ended = end
    return outcome, (end, slot, cpu, end - begin, queued), gil_state.now()


def note(timed: Timed) -> bytes | TaskFailed:
    """Keep what a task took, and give what it returned or raised."""
    outcome, row, gil = timed
    _samples.add(*row)
    if gil is not None:
        probe.note_gil(gil)
    return outcome


def between(begin: float, end: float) -> dict[str, float | None]:
    """Count the tasks that ended in a window, failed ones too, with their mean times in seconds.

    A mean is None without tasks, and where tasks of a loop ran at the same time; all but the
    slots are None when the window is older than what is kept.
    """
    rows = _samples.between(begin, end)
    workers = probe.facts.get("workers")
    return {
        "tasks": None if rows is None else len(rows),
        "slots": workers if isinstance(workers, int) else 1,
        "slot_s": _mean([row[1] for row in rows or []]),
        "task_cpu_s": _mean([row[2] for row in rows or []]),
        "task_s": _mean([row[3] for row in rows or []]),
        "task_queued_s": _mean([row[4] for row in rows or []]),
    }


def each(begin: float, end: float) -> list[tuple[float, float]] | None:
    """List when each task of a window began and ended, whole ones only; None when not known."""
    rows = _samples.between(begin, end)
    if rows is None or any(math.isnan(row[3]) for row in rows):
        return None
    spans = [(round(row[0] - row[3], 6), round(row[0], 6)) for row in rows]
    return [span for span in spans if span[0] >= begin]


def _mean(values: list[float]) -> float | None:
    mean = math.fsum(values) / len(values) if values else math.nan
    return None if math.isnan(mean) else round(mean, 9)
