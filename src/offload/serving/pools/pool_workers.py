"""The workers of a pool: all begun before the server listens, warm, and gone with their parent."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from typing import NoReturn, Protocol

from offload import tasks
from offload.errors import Mendable, StartError
from offload.serving.lifecycle import readiness
from offload.serving.lifecycle.stop_signal import leave
from offload.serving.metrics import gil_address, gil_state, probe

DEADLINE = 10.0  # s from the first worker's birth until all have imported the task and met
SIGNALS = {signal.SIGINT, signal.SIGTERM}

# `leave` leaves a barrier's semaphores to multiprocessing's tracker, which removes them, but warns.
sys.warnoptions.append("ignore:resource_tracker:UserWarning")


class Barrier(Protocol):
    """What threading's and multiprocessing's barriers have in common."""

    def wait(self, timeout: float | None = None) -> int: ...
    def abort(self) -> None: ...


# What a worker is, its GIL's state, and where its GIL is, when it has one of its own.
Told = tuple[dict[str, object], str | None, dict[str, object] | None]
Met = tuple[int, Told]  # its pid first
Meeting = Future[Met] | asyncio.Future[Met]

_barrier: Barrier | None = None
_gil_facts: dict[str, object] | None = None


def share(barrier: Barrier) -> None:
    """Initialise a worker thread."""
    global _barrier
    _barrier = barrier


def begin(barrier: Barrier) -> None:
    """Initialise a worker process: it ends with its parent, and only with its parent.

    A thread waits for the parent's end, since a parent-death signal does not fire under forkserver
    and no start method ends workers by itself (cpython#111873).
    """
    global _gil_facts
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    _gil_facts = gil_address.facts()  # of its own; no other thread computes yet
    threading.Thread(target=end_with_parent, name="parent-watch", daemon=True).start()
    share(barrier)


def start(executor: Executor, workers: int, task: str) -> None:
    """Begin every worker: as many jobs as workers, none done before all have imported the task.

    Raises StartError, or what the import of the task raised, in one line. It does not return when
    a worker is not ready by the deadline: nothing but the end of the process ends its import.
    """
    deadline = time.monotonic() + DEADLINE
    try:
        meetings = call(executor, workers, task)
    except (RuntimeError, OSError, EOFError) as error:  # EOFError: forkserver could not fork
        give_up(StartError(f"{workers} workers do not start ({error}): ask for fewer, workers=1"))
    finish(meetings, wait(meetings, deadline - time.monotonic()).not_done, task)


def finish(meetings: Sequence[Meeting], late: Collection[Meeting], task: str) -> None:
    """Take what workers that were called told, as `start` does; `late` are those not done."""
    wrong = _error([meeting.exception() for meeting in meetings if meeting not in late])
    if late:
        what = f"the workers were not ready within {DEADLINE:.0f} s"
        give_up(wrong or StartError(f"{what}: look for what importing {task} waits for"))
    if wrong is not None:
        raise wrong
    note_met(meeting.result() for meeting in meetings)


def call(executor: Executor, workers: int, task: str) -> list[Future[Met]]:
    """Call as many workers together; each has then imported the task, and tells of itself."""
    with signals_held():
        return [executor.submit(meet, task) for _ in range(workers)]


def note_met(met: Iterable[Met]) -> None:
    """Keep what workers that were called told, and who they are."""
    known = list(met)
    probe.facts["worker_pids"] = sorted({pid for pid, _ in known})
    note([told for _, told in known])


def note(told: Sequence[Told]) -> None:
    """Keep what the workers told of their interpreters and their GILs."""
    probe.note_workers(interpreter for interpreter, _, _ in told)
    for _, state, _ in told:
        probe.note_gil(state)
    if words := [word for _, _, word in told if word is not None]:
        probe.facts["worker_gil_words"] = words


def meet(task: str) -> Met:
    """Give what a worker knows of itself; of a thread the GIL is the server's own."""
    gil_state.watch()
    assert _barrier is not None, "the pool was made without share or begin"
    try:
        tasks.resolve(task)
    except BaseException:
        _barrier.abort()
        raise
    _barrier.wait(DEADLINE)
    return os.getpid(), (gil_state.interpreter(), gil_state.now(), _gil_facts)


def _error(raised: list[BaseException | None]) -> Mendable | None:
    """Choose, of what the workers raised, the line that says most."""
    errors = [error for error in raised if error is not None]
    for error in errors:
        if isinstance(error, Mendable):
            return error
    if any(isinstance(error, BrokenProcessPool) for error in errors):
        return StartError("a worker process died while starting: see its own words above")
    return StartError(f"a worker did not start: {errors[0]!r}") if errors else None


def may_run_twice(task: str, idempotent: str) -> bool:
    """Whether a task is run again after its worker died: ours is, a user's own if asked to be."""
    return idempotent == "yes" or (not idempotent and ":" not in task)


def give_up(error: Mendable) -> NoReturn:
    """End at once: the executor's own ending would wait for workers that never come."""
    readiness.fail(error)
    leave(error.exit_code)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Hold both signals while workers are born: they inherit the block until `begin` ends it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def end_with_parent() -> None:
    """Wait for the parent's end, however it comes, and end this process at once."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker process has a parent"
    connection.wait([parent.sentinel])
    os._exit(1)
