"""The pools in which a task is called without a server: threads, processes or interpreters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from threading import Barrier

from offload.errors import MachineError
from offload.serving.pools import pool_workers
from offload.serving.pools.pipe_barrier import PipeBarrier


def create(kind: str, workers: int) -> Executor:
    """Create a pool of a kind in POOLS, whose workers are not started yet; raise MachineError."""
    return POOLS[kind](workers)


def _processes(
    workers: int, initializer: Callable[..., None] = pool_workers.init_process
) -> Executor:
    context = get_context("forkserver")
    return ProcessPoolExecutor(workers, context, initializer, (context.Barrier(workers),))


def _threads(workers: int) -> Executor:
    return ThreadPoolExecutor(workers, "worker", pool_workers.init_thread, (Barrier(workers),))


def _interpreters(workers: int) -> Executor:
    if sys.version_info < (3, 14):
        raise MachineError("interpreters need Python 3.14")
    from concurrent.futures import InterpreterPoolExecutor  # type: ignore[attr-defined] # 3.14

    initializer = partial(pool_workers.init_thread, PipeBarrier.create(workers))
    pool: Executor = InterpreterPoolExecutor(workers, "worker", initializer)
    return pool


POOLS: dict[str, Callable[[int], Executor]] = {
    "processes": _processes,
    "kept_pages": partial(_processes, initializer=pool_workers.init_keeping_process),
    "threads": _threads,
    "interpreters": _interpreters,
}
