"""End a worker of multiprocessing with its parent, however the parent ends, even by kill -9.

No start method does this (cpython#111873). Under forkserver a parent-death signal would report the
end of the forkserver, which the workers themselves keep alive. Each worker has the reading end of a
pipe whose writing end only its parent keeps: the parent has ended when that pipe is closed.

On Linux the kernel then sends SIGKILL, which ends even a worker whose C code holds the GIL. On
other systems only a thread waits for the pipe. The thread also covers a parent that ended before
the signal was requested.
"""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing import connection


def start() -> None:
    """End this process with its parent from now on."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker process has a parent"
    _request_signal(parent.sentinel)
    threading.Thread(
        target=_wait, args=(parent.sentinel,), name="parent-watch", daemon=True
    ).start()


def _request_signal(pipe: int) -> None:
    """Let the kernel send SIGKILL to this process when the pipe is closed or written to."""
    if sys.platform == "linux":
        fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def _wait(pipe: int) -> None:
    connection.wait([pipe])
    os._exit(1)
