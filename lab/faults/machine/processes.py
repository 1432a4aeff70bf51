"""Find the processes below another one, and end processes that may have ended already."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress

import psutil


def descendants(pid: int) -> list[psutil.Process]:
    """Return all processes below a process, which may have ended."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def is_gone(process: psutil.Process) -> bool:
    """Whether a process has ended; a zombie has."""
    with suppress(psutil.NoSuchProcess):
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


def kill(pid: int) -> None:
    """Send SIGKILL to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_all(processes: Sequence[psutil.Process]) -> None:
    """Kill those of the processes that have not ended."""
    for process in processes:
        if not is_gone(process):
            kill(process.pid)
