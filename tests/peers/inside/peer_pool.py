"""Our pool for the tests of the peers, with stand-ins for private attributes that they read.

This is the only file here that imports the pool.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from pipepool import BrokenWorker, PipeExecutor, PipePool
from pipepool.exceptions import RemoteTraceback
from pipepool.executor import _Engine, _Phase
from pipepool.workers.worker_connection import WorkerState

__all__ = [
    "BrokenWorker",
    "Executor",
    "Future",
    "PipePool",
    "RemoteTraceback",
    "forbid",
    "has_shut_down",
]

# The tests of the standard library read the text of a remote traceback by this name.
RemoteTraceback.tb = property(lambda self: self.args[0])  # type: ignore[attr-defined]

WORKER_TIMEOUT = 30.0  # s for workers to start or to end


def forbid(kind: type) -> None:
    """Make every use of a peer's own pool fail: its tests must run on ours."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError(f"the test uses {kind.__module__}.{kind.__name__} and not our pool")

    kind.__init__ = refuse  # type: ignore[misc]


def has_shut_down(engine: _Engine) -> bool:
    """Whether an executor accepts no more calls."""
    return engine._phase is not _Phase.OPEN


def is_alive(pid: int) -> bool:
    """Whether a process exists, in whatever state."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Worker:
    """Stand in for the process object of a worker."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    @property
    def exitcode(self) -> int | None:
        """Stand in for an exit code: only whether there is one is known."""
        return None if is_alive(self.pid) else -signal.SIGKILL

    def terminate(self) -> None:
        """Kill the worker; workers ignore SIGTERM, which a whole process group gets."""
        os.kill(self.pid, signal.SIGKILL)

    kill = terminate

    def is_alive(self) -> bool:
        """Whether the worker exists."""
        return is_alive(self.pid)

    def join(self, timeout: float = WORKER_TIMEOUT) -> None:
        """Wait for the end of the worker."""
        deadline = time.monotonic() + timeout
        while is_alive(self.pid):
            assert time.monotonic() < deadline, f"worker {self.pid} has not ended"
            time.sleep(0.01)


class Workers(Mapping[int, Worker]):
    """The live workers of an executor by pid; after its end, those that still run."""

    def __init__(self, executor: Executor) -> None:
        self._engine = executor._engine
        self._count = executor._max_workers
        self._seen: dict[int, Worker] = {}

    def _now(self) -> dict[int, Worker]:
        engine = self._engine
        deadline = time.monotonic() + WORKER_TIMEOUT
        while engine._thread is not None and engine._thread.is_alive():
            scheduler = engine._scheduler
            if scheduler is not None:
                connections = list(scheduler.manager.connections.values())
                connections.sort(key=lambda each: not each.tasks)  # one that works is first
                living = [each for each in connections if each.state is not WorkerState.DEAD]
                pids = [each.pid for each in living if each.pid is not None]
                is_known = len(pids) >= self._count or scheduler.broken is not None
                if is_known or has_shut_down(engine):
                    self._seen = {pid: Worker(pid) for pid in pids}
                    break
            assert time.monotonic() < deadline, "the workers have not started"
            time.sleep(0.001)
        return {pid: each for pid, each in self._seen.items() if is_alive(pid)}

    def __getitem__(self, pid: int) -> Worker:
        return self._now()[pid]

    def __iter__(self) -> Iterator[int]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


class _CallQueue:
    """Stand in for a queue with a thread of its own."""

    def join_thread(self) -> None:
        """Return at once: there is no such thread."""


class Executor(PipeExecutor):
    """Our executor with the private attributes of ProcessPoolExecutor that its tests read."""

    _call_queue = _CallQueue()

    def __init__(
        self, max_workers: int | None = None, mp_context: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(max_workers, mp_context, *args, **kwargs)
        self._max_workers = self._engine._options.workers
        self._mp_context = mp_context
        self._processes = Workers(self)

    @property
    def _broken(self) -> str | None:
        scheduler = self._engine._scheduler
        return self._engine._broken or (scheduler.broken if scheduler is not None else None)

    @property
    def _executor_manager_thread(self) -> Any:
        return self._engine._thread
