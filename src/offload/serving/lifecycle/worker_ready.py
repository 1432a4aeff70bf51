"""Readiness of external servers: each worker process reports, then the server is announced."""

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
from offload.serving.lifecycle.stop_signal import exit_now

POLL = 0.005  # s: external servers do not report when their last worker has started
FOLDER, TASK, PARENT = "SERVER_BEGUN", "SERVER_TASK", "SERVER_PARENT"


def expect(task: str, processes: int, port: int) -> None:
    """Announce the server on `port` once `processes` workers have called `report`.

    The workers must be children of this process, since they end with it, or of one that called
    `become_parent`, or threads: granian has threads in a Python without a GIL.
    """
    folder = tempfile.TemporaryDirectory(prefix="workers-")
    os.environ[FOLDER], os.environ[TASK] = folder.name, task
    os.environ[PARENT] = str(os.getpid())
    arguments = (folder, processes, port)
    threading.Thread(target=_announce, args=arguments, name="ready", daemon=True).start()


def report() -> str:
    """Report that this worker is ready, end it with its parent, and return the task to serve.

    Once the server has been announced, workers that replace others are not expected any more.
    """
    if (parent := int(os.environ[PARENT])) != os.getpid():
        prctl.end_with(parent)
    with contextlib.suppress(FileNotFoundError):  # the folder of a worker that replaces another
        Path(os.environ[FOLDER], f"{os.getpid()}-{threading.get_native_id()}").touch()
    return os.environ[TASK]


def become_parent() -> None:
    """Make this child of the server the parent of workers: they end with it, and it ends with it.

    Call it before the workers are forked.
    """
    prctl.end_with(int(os.environ[PARENT]))
    os.environ[PARENT] = str(os.getpid())


def _announce(folder: tempfile.TemporaryDirectory[str], processes: int, port: int) -> None:
    until = time.monotonic() + readiness.LIMIT
    with folder:
        while (reports := _count(folder.name)) < processes or not _listens(port):
            if reports < 0:
                return
            if time.monotonic() > until:
                what = f"the server's processes were not ready within {readiness.LIMIT:.0f} s"
                readiness.fail(StartError(what))
                folder.cleanup()
                exit_now(4)
            time.sleep(POLL)
    readiness.announce(port)


def _count(folder: str) -> int:
    """Count the reports; -1 if the server is ending, and has removed the folder."""
    try:
        return len([*Path(folder).iterdir()])
    except FileNotFoundError:
        return -1


def _listens(port: int) -> bool:
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), readiness.LIMIT),
    ):
        return True
    return False
