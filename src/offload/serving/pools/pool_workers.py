"""The workers of a pool: started and warm before the server listens; they end with it.

Each worker performs a handshake: it imports the task, waits at a barrier for all other workers,
and reports its pid and its interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from time import monotonic  # imported by name: a task may replace it in its module
from typing import Protocol

from offload import resource_limits, tasks
from offload.errors import MachineError, StartError, UserError
from offload.registry import catalog
from offload.serving.lifecycle import parent_watch, readiness
from offload.serving.metrics import own_gil, probe

DEADLINE = 10.0  # s from the first worker's start until all handshakes are done
NO_SEMAPHORES = "mount a tmpfs that you can write to on /dev/shm, or use pipes or prefork"
NO_SPACE = "free space in /dev/shm, or use pipes or prefork, which need none there"
FEWER = "use fewer, workers=1"
SIGNALS = {signal.SIGINT, signal.SIGTERM}

# After `exit_now` multiprocessing's tracker removes a barrier's semaphores, with a warning.
sys.warnoptions.append("ignore:resource_tracker:UserWarning")


class Barrier(Protocol):
    """The common interface of threading's and multiprocessing's barriers."""

    def wait(self, timeout: float | None = None) -> int: ...
    def abort(self) -> None: ...


# A worker's interpreter, the state of its GIL, and, if the GIL is its own, its address facts.
WorkerFacts = tuple[dict[str, object], str | None, dict[str, object] | None]
WorkerReport = tuple[int, WorkerFacts]  # pid and facts
Handshake = Future[WorkerReport] | asyncio.Future[WorkerReport]

_barrier: Barrier | None = None
_gil_facts: dict[str, object] | None = None


def init_thread(barrier: Barrier) -> None:
    """Set the barrier of the workers in this process or interpreter."""
    global _barrier
    _barrier = barrier


def init_process(barrier: Barrier) -> None:
    """Initialize a worker process: it ends with its parent, and ignores stop signals."""
    become_child()
    init_thread(barrier)


def become_child() -> None:
    """End this process of multiprocessing with its parent, and leave stop signals to the parent."""
    global _gil_facts
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    probe.collect_on_request()
    _gil_facts = own_gil.address_facts()  # no other thread computes yet
    parent_watch.start()


def start(executor: Executor, workers: int, task: str) -> None:
    """Start every worker with one handshake; it ends when all workers have imported the task.

    The initializer of an executor of processes must be one of this module's, with one barrier for
    all.
    Raise StartError, or the error of the task's import. If a worker is not ready by DEADLINE, end
    the process: nothing else can stop the import.
    """
    if isinstance(executor, ThreadPoolExecutor):
        import_in_time(task)
        init_thread(threading.Barrier(workers))
    deadline = monotonic() + DEADLINE
    try:
        handshakes = submit_handshakes(executor, workers, task)
    except (RuntimeError, OSError, EOFError) as error:  # EOFError: forkserver could not fork
        what = f"{workers} workers do not start ({error})"
        limit = resource_limits.machine_error(what, error, FEWER)
        readiness.abort_start(limit or StartError(what, FEWER))
    finish(handshakes, wait(handshakes, deadline - monotonic()).not_done, task)


@contextlib.contextmanager
def creating_locks() -> Iterator[None]:
    """Raise MachineError if a process pool cannot be created: its locks are files in /dev/shm."""
    try:
        yield
    except (OSError, ImportError, NotImplementedError) as error:  # too few semaphores, or none
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number else str(error)
        what = f"the locks of the worker processes cannot be created ({reason})"
        if number == errno.ENOSPC:
            raise MachineError(what, NO_SPACE) from error
        limit = resource_limits.machine_error(what, error)
        raise limit or MachineError(what, NO_SEMAPHORES) from error


def import_task(task: str) -> None:
    """Import the task as `import_in_time`, for a server that starts its workers with requests."""
    import_in_time(task)
    record_reports([report()])


def import_in_time(task: str) -> None:
    """Import the task once in this thread: in the main thread it can do what a program can.

    If the import has not ended by DEADLINE, end the process: nothing else can stop it.
    """
    has_ended = threading.Event()
    watch = threading.Thread(target=_limit_import, args=(has_ended, task), daemon=True)
    readiness.start(watch)
    try:
        tasks.resolve(task)
    finally:
        has_ended.set()
        watch.join()


def _limit_import(has_ended: threading.Event, task: str) -> None:
    if not has_ended.wait(DEADLINE):
        what = f"the server was not ready within {DEADLINE:.0f} s"
        readiness.abort_start(StartError(what, f"check what the import of {task} waits for"))


def finish(handshakes: Sequence[Handshake], late: Collection[Handshake], task: str) -> None:
    """Record the reports of finished handshakes; raise or abort like `start` if any is `late`."""
    wrong = _error([future.exception() for future in handshakes if future not in late])
    if late:
        what = f"the workers were not ready within {DEADLINE:.0f} s"
        fix = f"check what the import of {task} waits for"
        readiness.abort_start(wrong or StartError(what, fix))
    if wrong is not None:
        raise wrong
    record_reports(future.result() for future in handshakes)


def submit_handshakes(executor: Executor, workers: int, task: str) -> list[Future[WorkerReport]]:
    """Submit one handshake per worker."""
    with block_signals():
        return [executor.submit(handshake, task) for _ in range(workers)]


def record_reports(reports: Iterable[WorkerReport]) -> None:
    """Record the pids and the facts of the workers."""
    known = list(reports)
    probe.facts["worker_pids"] = sorted({pid for pid, _ in known})
    record_facts([facts for _, facts in known])


def record_facts(workers: Sequence[WorkerFacts]) -> None:
    """Record the interpreters and the GILs of the workers."""
    probe.note_workers(interpreter for interpreter, _, _ in workers)
    for _, state, _ in workers:
        probe.note_gil(state)
    if addresses := [address for _, _, address in workers if address is not None]:
        probe.facts["worker_gil_addresses"] = addresses


def handshake(task: str) -> WorkerReport:
    """Import the task, wait for all workers, and return the pid and facts of this worker."""
    own_gil.watch_gil()
    if _barrier is None:
        remedy = "create it with init_process, as servers/processes.py does"
        raise StartError("the executor's workers are not initialized", remedy)
    try:
        tasks.resolve(task)
    except BaseException:
        _barrier.abort()
        raise
    _barrier.wait(DEADLINE)
    return report()


def first_call(task: str) -> None:
    """Wait for all workers, then call the task once; it may fail.

    The first call of a process may prepare it, for example load a model.
    """
    assert _barrier is not None  # the handshake used it
    _barrier.wait(DEADLINE)
    with contextlib.suppress(tasks.TaskFailed):
        tasks.call(task)


def report() -> WorkerReport:
    """Return the pid and the facts of this worker."""
    return os.getpid(), (own_gil.interpreter(), own_gil.enabled_by(), _gil_facts)


def _error(raised: list[BaseException | None]) -> UserError | None:
    """Return the most informative error of the workers; None if no worker has an error."""
    errors = [error for error in raised if error is not None]
    for error in errors:
        if isinstance(error, UserError):
            return error
    for error in errors:
        limit = resource_limits.machine_error(f"a worker did not start: {error!r}", error, FEWER)
        if limit is not None:
            return limit
    if any(isinstance(error, BrokenProcessPool) for error in errors):
        return StartError("a worker process died while starting", "see its output above")
    return StartError(f"a worker did not start: {errors[0]!r}") if errors else None


def may_run_twice(task: str, idempotent: str) -> bool:
    """Whether a task may be retried after its worker died: a user's only if set to idempotent."""
    return idempotent == "yes" or (not idempotent and not catalog.is_own(task))


@contextlib.contextmanager
def block_signals() -> Iterator[None]:
    """Block both signals while workers start: they inherit the block until initialization."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
