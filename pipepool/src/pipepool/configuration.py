"""The parameters of a pool: their checks and defaults."""

from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import context as process_context
from multiprocessing import reduction, resource_sharer
from pathlib import Path
from typing import Any

from pipepool.scheduling.accounting import TaskMetrics
from pipepool.workers.shared_memory import ARENA_SIZE, PAGE
from pipepool.workers.worker import Setup
from pipepool.workers.worker_connection import check_seconds

CGROUP = Path("/sys/fs/cgroup")
LONG_BUSY_WAIT = 200_000  # ns; about twice the cost of falling asleep and being woken
SHORT_BUSY_WAIT = 150_000  # ns; without two spare CPUs
MOST_SHARED_MEMORY = 1 << 40  # bytes


@dataclass(frozen=True)
class Config:
    """The configuration of a pool, as `configure` has checked it."""

    workers: int
    max_tasks: int | None  # of one worker, which is then replaced
    preload: tuple[str, ...]
    arena_size: int  # bytes of shared memory in each direction, for each worker
    start_timeout: float | None  # s for the start of each worker
    max_queue: int | None  # tasks that may wait
    metrics: Callable[[Any], object] | None  # called at the end of each task
    setup: Setup


def configure(
    max_workers: int | None = None,
    initializer: Callable[..., object] | None = None,
    initargs: tuple[Any, ...] = (),
    *,
    preload: Sequence[str] = (),
    max_tasks_per_child: int | None = None,
    max_queue: int | None = None,
    context: Sequence[str] = (),
    finalizer: Callable[[], object] | None = None,
    start_timeout: float | None = None,
    busy_wait: bool | None = None,
    shared_memory: int = ARENA_SIZE,
    metrics: Callable[[TaskMetrics], object] | None = None,
) -> Config:
    """Check the parameters of a pool and return its configuration.

    Raises TypeError or ValueError, with the messages of the standard executors.
    """
    if max_workers is None:
        max_workers = available_cpus()
    max_workers = operator.index(max_workers)
    if max_workers <= 0:
        raise ValueError("max_workers must be greater than 0")
    callables = ("initializer", initializer), ("finalizer", finalizer), ("metrics", metrics)
    for name, function in callables:
        if function is not None and not callable(function):
            raise TypeError(f"{name} must be a callable")
    if max_tasks_per_child is not None:
        if not isinstance(max_tasks_per_child, int):
            raise TypeError("max_tasks_per_child must be an integer")
        if max_tasks_per_child <= 0:
            raise ValueError("max_tasks_per_child must be >= 1")
        max_tasks_per_child = min(max_tasks_per_child, sys.maxsize)
    if max_queue is not None and operator.index(max_queue) < 0:
        raise ValueError("max_queue must be at least 0, or None for any number")
    if not PAGE <= operator.index(shared_memory) <= MOST_SHARED_MEMORY:
        raise ValueError(f"shared_memory must be {PAGE} to {MOST_SHARED_MEMORY} bytes")
    start_timeout = check_seconds("start_timeout", start_timeout)
    if isinstance(preload, str) or isinstance(context, str):
        raise TypeError("preload and context must be lists of names, not one string")
    setup = Setup(
        initializer, initargs, finalizer, tuple(context), _busy_wait_ns(busy_wait, max_workers)
    )
    check_picklable(setup)
    size = -(-shared_memory // PAGE) * PAGE
    return Config(
        max_workers,
        max_tasks_per_child,
        tuple(preload),
        size,
        start_timeout,
        max_queue,
        metrics,
        setup,
    )


def available_cpus() -> int:
    """Count the CPUs that this process may use: its affinity, and its cgroup's quota."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    quota = _cgroup_quota()
    return cpus if quota is None else max(1, min(cpus, math.ceil(quota)))


def _busy_wait_ns(busy_wait: bool | None, max_workers: int) -> int:
    """Return how long a worker polls before it sleeps, in ns; 0: never.

    Without two spare CPUs polling slows the parent, so the limit is lower. Polling uses up a
    cgroup's quota, so it then needs two spare CPUs.
    """
    cpus = available_cpus()
    if busy_wait or (busy_wait is None and max_workers + 2 <= cpus):
        return LONG_BUSY_WAIT
    if busy_wait is None and max_workers <= cpus > 1 and _cgroup_quota() is None:
        return SHORT_BUSY_WAIT
    return 0


def _cgroup_quota() -> float | None:
    """Return the CPUs that the cgroup (version 2) of this process may use, None without a limit."""
    try:
        own = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip()
    except OSError:
        return None
    least: float | None = None
    folder = CGROUP / own.lstrip("/")
    for each in (folder, *folder.parents):  # every level limits what is below it
        try:
            quota, period = (each / "cpu.max").read_text().split()
        except (OSError, ValueError):
            continue
        if quota != "max":
            cpus = int(quota) / int(period)
            least = cpus if least is None else min(least, cpus)
    return least


def check_picklable(setup: Setup) -> None:
    """Raise TypeError if the setup cannot be pickled."""
    try:
        _pickle_as(_Probe(), setup)
    except Exception as error:
        raise TypeError(f"initializer, initargs or finalizer cannot be pickled: {error}") from error


def pickle_once(setup: Setup) -> bytes | None:
    """Pickle the setup once for all workers; return None if each needs its own descriptors."""
    probe = _Probe()
    data = _pickle_as(probe, setup)
    return None if probe.has_descriptors else data


def pickle_for_child(setup: Setup) -> bytes:
    """Pickle the setup for one worker, with descriptors of its own."""
    return _pickle_as(_Child(), setup)


def _pickle_as(child: _Child, setup: Setup) -> bytes:
    """Pickle the setup of a worker, as multiprocessing does for its own children."""
    before = process_context.get_spawning_popen()
    process_context.set_spawning_popen(child)  # type: ignore[arg-type] # it uses only these members
    try:
        return bytes(reduction.ForkingPickler.dumps(setup))
    finally:
        process_context.set_spawning_popen(before)


class _Child:
    """A placeholder for the child process while the setup is pickled."""

    def duplicate_for_child(self, descriptor: int) -> int:
        return descriptor

    DupFd: Callable[[int], object] = staticmethod(resource_sharer.DupFd)


class _Probe(_Child):
    """A placeholder that records whether the setup has descriptors, and duplicates none."""

    has_descriptors = False
    DupFd = staticmethod(int)

    def duplicate_for_child(self, descriptor: int) -> int:
        self.has_descriptors = True
        return descriptor
