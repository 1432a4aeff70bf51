"""Run loky's tests of its executors with ours in the place of its process pools."""

from __future__ import annotations

import os
import pickle
import re
import signal
import sys
import threading
import types
from typing import Any

import cloudpickle
import psutil
from peer_pool import (
    BrokenWorker,
    Executor,
    Future,
    RemoteTraceback,
    forbid,
    has_shut_down,
)

LOKY_EXIT = re.compile(r"EXIT\\\((\d+)\\\)")


class _Flags:
    """Stand in for the flags of an executor."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    @property
    def shutdown(self) -> bool:
        """Whether the executor takes no more calls."""
        return has_shut_down(self._engine)

    @property
    def broken(self) -> str | None:
        """Why the executor is broken; None after a shutdown."""
        if self.shutdown or self._engine._scheduler is None:
            return None
        why: str | None = self._engine._scheduler.broken
        return why


class Pickled:
    """A function that only cloudpickle can pickle: the usual way to pass one to a plain pool."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (cloudpickle.dumps(self._function),)


class ProcessPoolExecutor(Executor):
    """Our executor with loky's parameters; it has no reducers, timeout and env have no effect."""

    def __init__(
        self,
        max_workers: int | None = None,
        context: Any = None,
        timeout: float | None = None,
        env: dict[str, str] | None = None,
        **others: Any,
    ) -> None:
        super().__init__(max_workers, context, **others)
        self._timeout = timeout
        self._flags = _Flags(self._engine)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if isinstance(fn, types.FunctionType) and "<" in fn.__qualname__:
            fn = Pickled(fn)
        return super().submit(fn, *args, **kwargs)

    def shutdown(
        self, wait: bool = True, *, cancel_futures: bool = False, kill_workers: bool = False
    ) -> None:
        if kill_workers:
            self.kill_workers()
        super().shutdown(wait, cancel_futures=cancel_futures)


_of_thread = threading.local()


def get_reusable_executor(
    max_workers: int | None = None,
    context: Any = None,
    timeout: float | None = 10,
    kill_workers: bool = False,
    reuse: bool | str = "auto",
    kind: type[ProcessPoolExecutor] = ProcessPoolExecutor,
    **others: Any,
) -> ProcessPoolExecutor:
    """Return this thread's executor, or another one where it differs: ours is never resized."""
    if isinstance(context, str):
        from loky.backend import get_context

        context = get_context(context)
    executor: ProcessPoolExecutor | None = getattr(_of_thread, "executor", None)
    if max_workers is None and reuse is True and executor is not None:
        max_workers = executor._max_workers
    given = (context, timeout, others)
    if executor is not None:
        is_alike = reuse is True or (reuse == "auto" and given == _of_thread.given)
        is_usable = not (executor._flags.shutdown or executor._flags.broken)
        if is_alike and is_usable and max_workers in (None, executor._max_workers):
            return executor
        if reuse is True:
            context, timeout, others = _of_thread.given
        executor.shutdown(kill_workers=kill_workers)
    _of_thread.executor = kind(max_workers, context, timeout, **others)
    _of_thread.given = (context, timeout, others)
    return _of_thread.executor


def install() -> None:
    """Replace loky's executors and the errors that its tests expect."""
    import loky
    from loky import process_executor, reusable_executor

    forbid(process_executor.ProcessPoolExecutor)
    for module in (loky, process_executor):
        module.ProcessPoolExecutor = ProcessPoolExecutor
    for module in (loky, reusable_executor):
        module.get_reusable_executor = get_reusable_executor
    process_executor.TerminatedWorkerError = BrokenWorker
    process_executor.BrokenProcessPool = BrokenWorker.__base__
    process_executor.ShutdownExecutorError = RuntimeError
    process_executor._RemoteTraceback = RemoteTraceback
    loky.cpu_count = _cpus


def _cpus() -> int:
    with Executor() as executor:
        return executor._max_workers


def _running_children(process: psutil.Process) -> list[tuple[int, str]]:
    """List the workers, which are children of a child: of the process that forks them."""
    found = []
    for child in process.children():
        try:
            found += [(each.pid, " ".join(each.cmdline())) for each in child.children()]
        except psutil.Error:
            continue
    return found


def _match(words: str | None) -> str | None:
    """Translate how loky names an exit code; signals have the same names."""
    return words and LOKY_EXIT.sub(r"exit code \1", words)


def pytest_configure(config: Any) -> None:
    """Replace, before the tests import them, two helpers that look at loky's processes."""
    sys.path.insert(0, os.environ["PEER_SOURCE"])
    from tests import _executor_mixin, utils

    _executor_mixin._running_children_pids_with_cmdline = _running_children
    utils.filter_match = _match
    signal.signal(signal.SIGINT, signal.default_int_handler)
