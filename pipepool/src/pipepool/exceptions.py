"""Exceptions of the pool. Each message reports what happened to one task."""

from __future__ import annotations

import signal
from concurrent.futures.process import BrokenProcessPool

from pipepool.workers.protocol import RemoteError, RemoteTraceback, TaskExit

__all__ = ["BrokenWorker", "QueueFull", "RemoteError", "RemoteTraceback", "TaskExit"]


class BrokenWorker(BrokenProcessPool):
    """A worker process ended before it returned the result of a task, or none can be started.

    `pid` is the process's pid, `exit_code` its exit code, `signal` the number of the signal that
    killed it; each is None where it is unknown or does not apply.
    """

    def __init__(self, message: str, status: int | None = None, pid: int | None = None) -> None:
        self.pid = pid
        self.exit_code = status if status is not None and status >= 0 else None
        self.signal = -status if status is not None and status < 0 else None
        super().__init__(message)
        self._arguments = (message, status, pid)

    def __reduce__(self) -> tuple[object, ...]:
        return BrokenWorker, self._arguments


class QueueFull(RuntimeError):
    """`max_queue` tasks wait already: reject the request, or retry later."""


def error_text(error: BaseException) -> str:
    """Return the repr of an exception, or the name of its type if its `__repr__` fails."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 - whatever a __repr__ raises
        return type(error).__name__


def worker_ended(message: str, status: int | None, pid: int | None) -> BrokenWorker:
    """Return a BrokenWorker whose message includes the exit status, where that is known."""
    return BrokenWorker(f"{message} ({_describe(status)})", status, pid)


def _describe(status: int | None) -> str:
    if status is None:
        return "its exit code is unknown"
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"signal {-status}, {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal has no name
        return f"signal {-status}"
