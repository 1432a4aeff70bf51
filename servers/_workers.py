"""The workers of a pool: all begun before the server listens, warm, and gone with their parent."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Protocol

import tasks
from errors import Mendable, StartError
from servers import _probe

DEADLINE = 10.0  # s for all workers to import the task and to meet
SIGNALS = {signal.SIGINT, signal.SIGTERM}


class Barrier(Protocol):
    """What threading's and multiprocessing's barriers have in common."""

    def wait(self, timeout: float | None = None) -> int: ...
    def abort(self) -> None: ...


_barrier: Barrier | None = None


def share(barrier: Barrier) -> None:
    """Initialise a worker thread."""
    global _barrier
    _barrier = barrier


def begin(barrier: Barrier) -> None:
    """Initialise a worker process: it ends with its parent, and only with its parent.

    A thread waits for the parent's end, since a parent-death signal does not fire under forkserver
    and no start method ends workers by itself (cpython#111873).
    """
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()
    share(barrier)


def start(executor: Executor, workers: int, task: str) -> None:
    """Begin every worker: as many jobs as workers, none done before all have imported the task.

    Raises StartError, or what the import of the task raised, in one line.
    """
    with _signals_held():
        meetings = [executor.submit(_meet, task) for _ in range(workers)]
    _probe.facts["worker_pids"] = sorted(set(_results(meetings)))


def _meet(task: str) -> int:
    assert _barrier is not None, "the pool was made without share or begin"
    try:
        tasks.resolve(task)
    except BaseException:
        _barrier.abort()
        raise
    _barrier.wait(DEADLINE)
    return os.getpid()


def _results(meetings: list[Future[int]]) -> Iterator[int]:
    errors = [meeting.exception(DEADLINE + 5) for meeting in meetings]
    for error in errors:
        if isinstance(error, Mendable):
            raise error
    for error in errors:
        if isinstance(error, BrokenProcessPool):
            raise StartError("a worker process died while starting: see its own words above")
        if isinstance(error, threading.BrokenBarrierError):
            raise StartError(f"not all {len(meetings)} workers were ready within {DEADLINE:.0f} s")
        if error is not None:
            raise error
    return (meeting.result() for meeting in meetings)


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Hold both signals while workers are born: they inherit the block until `begin` ends it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        sys.exit("a worker process has a parent")
    wait([parent.sentinel])
    os._exit(1)
