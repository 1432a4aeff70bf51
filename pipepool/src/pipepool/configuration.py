"""The parameters of a pool: their checks and defaults."""

from __future__ import annotations

import functools
import inspect
import math
import operator
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from multiprocessing import context as process_context
from multiprocessing import reduction, resource_sharer
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from pipepool.scheduling.accounting import TaskMetrics
from pipepool.workers.shared_memory import ARENA_SIZE, PAGE
from pipepool.workers.worker import Setup
from pipepool.workers.worker_connection import check_seconds

P = ParamSpec("P")
TObject = TypeVar("TObject")
TOptions = TypeVar("TOptions")

CGROUP = Path("/sys/fs/cgroup")
LONG_BUSY_WAIT = 200_000  # ns; about twice the cost of falling asleep and being woken
SHORT_BUSY_WAIT = 150_000  # ns; without two spare CPUs
MOST_SHARED_MEMORY = 1 << 40  # bytes


@dataclass(frozen=True, eq=False, kw_only=True)
class KeywordOptions:
    """The keyword parameters of PipePool and of PipeExecutor."""

    preload: Sequence[str] = ()
    max_tasks_per_child: int | None = None
    max_queue: int | None = None
    context: Sequence[str] = ()
    finalizer: Callable[[], object] | None = None
    start_timeout: float | None = None
    busy_wait: bool | None = None
    shared_memory: int = ARENA_SIZE
    metrics: Callable[[TaskMetrics], object] | None = None


@dataclass(frozen=True, eq=False)
class PoolOptions(KeywordOptions):
    """The parameters of a pool.

    Raises TypeError or ValueError, with the messages of the standard executors.
    """

    max_workers: int | None = None
    initializer: Callable[..., object] | None = None
    initargs: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        for name in ("initializer", "finalizer", "metrics"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise TypeError(f"{name} must be a callable")
        if self.max_tasks_per_child is not None:
            if not isinstance(self.max_tasks_per_child, int):
                raise TypeError("max_tasks_per_child must be an integer")
            if self.max_tasks_per_child <= 0:
                raise ValueError("max_tasks_per_child must be >= 1")
        if self.max_queue is not None and operator.index(self.max_queue) < 0:
            raise ValueError("max_queue must be at least 0, or None for any number")
        if not PAGE <= operator.index(self.shared_memory) <= MOST_SHARED_MEMORY:
            raise ValueError(f"shared_memory must be {PAGE} to {MOST_SHARED_MEMORY} bytes")
        start_timeout = check_seconds("start_timeout", self.start_timeout)
        if isinstance(self.preload, str) or isinstance(self.context, str):
            raise TypeError("preload and context must be lists of names, not one string")
        # The caller may change its lists later.
        object.__setattr__(self, "start_timeout", start_timeout)
        object.__setattr__(self, "preload", tuple(self.preload))
        object.__setattr__(self, "context", tuple(self.context))
        check_picklable(self.setup)

    @functools.cached_property
    def workers(self) -> int:
        """The number of workers."""
        return available_cpus() if self.max_workers is None else operator.index(self.max_workers)

    @property
    def tasks_per_worker(self) -> float:
        """The number of tasks after which a worker is replaced, which may be infinite."""
        most = self.max_tasks_per_child
        return math.inf if most is None else float(min(most, sys.maxsize))

    @property
    def arena_size(self) -> int:
        """The bytes of shared memory in each direction, for each worker."""
        return -(-self.shared_memory // PAGE) * PAGE

    @functools.cached_property
    def setup(self) -> Setup:
        """What each worker gets before its first task."""
        return Setup(
            self.initializer,
            self.initargs,
            self.finalizer,
            tuple(self.context),
            _busy_wait_ns(self.busy_wait, self.workers),
        )


@dataclass(frozen=True, eq=False)
class ExecutorOptions(KeywordOptions):
    """The parameters of a PipeExecutor; `mp_context` is ignored."""

    max_workers: int | None = None
    mp_context: object = None
    initializer: Callable[..., object] | None = None
    initargs: tuple[Any, ...] = ()

    def pool_options(self) -> PoolOptions:
        """Return the parameters of its pool."""
        keywords = {each.name: getattr(self, each.name) for each in fields(KeywordOptions)}
        return PoolOptions(self.max_workers, self.initializer, self.initargs, **keywords)


def accept_fields(
    options: Callable[P, TOptions],
) -> Callable[[Callable[[TObject, TOptions], None]], Callable[Concatenate[TObject, P], None]]:
    """Make a method that takes a dataclass accept its fields, which `help` shows."""

    def decorate(
        method: Callable[[TObject, TOptions], None],
    ) -> Callable[Concatenate[TObject, P], None]:
        @functools.wraps(method)
        def accept(self: TObject, /, *args: P.args, **kwargs: P.kwargs) -> None:
            method(self, options(*args, **kwargs))

        signature: Any = inspect.signature(options)
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [first, *signature.parameters.values()]
        accept.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return accept

    return decorate


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


def pickle_once(setup: Setup) -> PickledSetup | None:
    """Pickle the setup once for all workers; return None if each needs its own descriptors."""
    probe = _Probe()
    data = _pickle_as(probe, setup)
    return None if probe.has_descriptors else PickledSetup(data, ())


def pickle_for_child(setup: Setup) -> PickledSetup:
    """Pickle the setup for one worker, with descriptors of its own."""
    child = _Child()
    try:
        return PickledSetup(_pickle_as(child, setup), child.keys)
    except BaseException:
        close_unfetched(child.keys)
        raise


class PickledSetup(NamedTuple):
    """A setup, and the keys of the descriptors that a worker fetches when it loads it."""

    data: bytes
    keys: Sequence[int]


def close_unfetched(keys: Sequence[int]) -> None:
    """Close the descriptors that a worker which has ended did not fetch."""
    sharer: Any = resource_sharer._resource_sharer  # type: ignore[attr-defined]
    for key in keys:
        if (entry := sharer._cache.pop(key, None)) is not None:
            _, close = entry
            close()


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

    def __init__(self) -> None:
        self.keys: list[int] = []

    def duplicate_for_child(self, descriptor: int) -> int:
        return descriptor

    def DupFd(self, descriptor: int) -> object:  # noqa: N802 - as multiprocessing calls it
        shared: Any = resource_sharer.DupFd(descriptor)
        self.keys.append(shared._id[1])
        return shared


class _Probe(_Child):
    """A placeholder that records whether the setup has descriptors, and duplicates none."""

    has_descriptors = False

    def DupFd(self, descriptor: int) -> object:  # noqa: N802
        return descriptor

    def duplicate_for_child(self, descriptor: int) -> int:
        self.has_descriptors = True
        return descriptor
