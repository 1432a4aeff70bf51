"""The pools in which a task is called without a server: threads, processes or interpreters."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess
from typing import TypeVar

from offload import resource_limits
from offload.errors import MachineError, StartError
from offload.serving.pools import pool_workers
from offload.serving.pools.pipe_barrier import PipeBarrier

T = TypeVar("T")


def create(kind: str, workers: int) -> Executor:
    """Create a pool of a kind in POOLS, whose workers are not started yet; raise MachineError."""
    return POOLS[kind](workers)


def results(pool: Executor, call: Callable[[], T], count: int, task: str) -> list[T]:
    """Run a call of a task in `count` workers, and return the results.

    Raise StartError if a worker process ends.
    """
    workers = active_children()
    try:
        return [each.result() for each in [pool.submit(call) for _ in range(count)]]
    except BrokenExecutor:
        what = f"calling {task} ended a worker process{_exit_reason(pool, workers)}"
        raise StartError(what, resource_limits.or_raise_memory("fix the function first")) from None


def _exit_reason(pool: Executor, workers: Sequence[BaseProcess]) -> str:
    """Return how the first workers of a broken pool ended, in parentheses; end the others."""
    ended = [worker for worker in workers if not _exists(worker)]
    for worker in workers:
        if worker not in ended:
            worker.kill()  # it ignores the signal of the pool
    pool.shutdown()  # before reading the exit codes, which the pool's thread reads, too
    code = min((worker.exitcode or 0 for worker in ended), default=0)
    if code < 0:
        return f" (signal {-code}, {signal.strsignal(-code)})"
    return f" (exit code {code})" if code else ""


def _exists(worker: BaseProcess) -> bool:
    """Whether a worker's process exists.

    Its sentinel does not show that it ended: the pool's thread may have read the exit code there.
    """
    try:
        os.kill(worker.pid or 0, 0)
    except ProcessLookupError:
        return False
    return True


def _processes(workers: int) -> Executor:
    context = get_context("forkserver")
    with pool_workers.creating_locks():
        return ProcessPoolExecutor(
            workers, context, pool_workers.init_process, (context.Barrier(workers),)
        )


def _threads(workers: int) -> Executor:
    return ThreadPoolExecutor(workers, "worker")


def _interpreters(workers: int) -> Executor:
    if sys.version_info < (3, 14):
        raise MachineError("interpreters need Python 3.14")
    from concurrent.futures import InterpreterPoolExecutor  # type: ignore[attr-defined] # 3.14

    initializer = partial(pool_workers.init_thread, PipeBarrier.create(workers))
    pool: Executor = InterpreterPoolExecutor(workers, "worker", initializer)
    return pool


POOLS: dict[str, Callable[[int], Executor]] = {
    "processes": _processes,
    "threads": _threads,
    "interpreters": _interpreters,
}
