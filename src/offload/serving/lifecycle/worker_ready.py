"""The processes that another's server starts: each notes that it began, and the last one counts."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
import time
from pathlib import Path

from offload import prctl
from offload.errors import StartError
from offload.serving.lifecycle import readiness
from offload.serving.lifecycle.stop_signal import leave

READY = 10.0  # s for all processes to load the application
POLL = 0.005  # s: no one else tells when the last process of another's server has begun
PR_SET_PDEATHSIG = 1
FOLDER, TASK = "SERVER_BEGUN", "SERVER_TASK"


def expect(task: str, processes: int, port: int) -> None:
    """Say that the server on `port` is ready when so many processes have called `note`."""
    folder = tempfile.TemporaryDirectory(prefix="begun-")
    os.environ[FOLDER], os.environ[TASK] = folder.name, task
    words = (folder, processes, port)
    threading.Thread(target=_announce, args=words, name="begun", daemon=True).start()


def note() -> str:
    """Note, in a process, that it has begun; it ends with its parent. Give the task to serve."""
    prctl.end_with(os.getppid())
    Path(os.environ[FOLDER], str(os.getpid())).touch()
    return os.environ[TASK]


def _announce(folder: tempfile.TemporaryDirectory[str], processes: int, port: int) -> None:
    until = time.monotonic() + READY
    with folder:
        while len([*Path(folder.name).iterdir()]) < processes or not _listens(port):
            if time.monotonic() > until:
                readiness.fail(StartError(f"its processes were not ready within {READY:.0f} s"))
                folder.cleanup()
                leave(4)
            time.sleep(POLL)
    readiness.announce(port)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), READY):
        return True
    return False
