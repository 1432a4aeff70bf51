"""The errors of a pool: each is one line that says what happened to one task."""

from __future__ import annotations

import signal
from concurrent.futures.process import BrokenProcessPool


class BrokenWorker(BrokenProcessPool):
    """Say that a worker ended before it could give a task's result.

    `exit_code` is what it ended with, `signal` the number that ended it; None where not known.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        self.exit_code = status if status is not None and status >= 0 else None
        self.signal = -status if status is not None and status < 0 else None
        super().__init__(message)
        self._reduced = (message, status)

    def __reduce__(self) -> tuple[object, ...]:
        return BrokenWorker, self._reduced


class QueueFull(RuntimeError):
    """Say that `max_queue` tasks wait already: refuse, or ask again later."""


class TaskExit(RuntimeError):
    """Say that a task raised what would end a process: `sys.exit()`, KeyboardInterrupt.

    `code` is that of SystemExit, None for all others.
    """

    def __init__(self, message: str, code: object = None) -> None:
        super().__init__(message)
        self.code = code


class RemoteError(RuntimeError):
    """Stand for an exception of a task that pickle cannot bring over, by its type and words."""


class RemoteTraceback(Exception):
    """Show, as the cause of an exception, where in the worker it was raised."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def ended(message: str, status: int | None) -> BrokenWorker:
    """Make the error of a worker that ended, with its exit status where that is known."""
    return BrokenWorker(f"{message} ({_ending(status)})", status)


def _ending(status: int | None) -> str:
    if status is None:
        return "its exit code is not known"
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"signal {-status}, {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal has no name
        return f"signal {-status}"
