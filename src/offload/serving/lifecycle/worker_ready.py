"""Readiness of external servers: each worker process reports, then the server is announced.

A worker that imports a user's application may fail to start. It then reports its error, and the
server ends with that error.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from json import dumps, loads  # imported by name: a task may replace them
from pathlib import Path
from typing import NoReturn

from offload import files, prctl
from offload.errors import StartError, UserError, kind_of
from offload.registry import addresses
from offload.serving.lifecycle import readiness
from offload.serving.lifecycle.stop_signal import temporary_folders
from offload.serving.metrics import probe

POLL = 0.005  # s: external servers do not report when their last worker has started
FOLDER, TASK, PARENT = "SERVER_READY_FOLDER", "SERVER_TASK", "SERVER_PARENT"
FAILED = "failed"  # the file with the error of a worker

_failure: UserError | None = None  # of this process
_reporting = threading.Lock()  # acquired once, by the thread that reports the server's error


def expect(task: str, processes: int, port: int) -> None:
    """Announce the server on `port` once `processes` workers have called `report`.

    The workers must be children of this process, with which they end, or children of a process that
    called `become_parent`. They may also be threads: granian's are, in a Python without a GIL.
    """
    folder = tempfile.TemporaryDirectory(prefix="workers-")
    os.environ[FOLDER], os.environ[TASK] = folder.name, task
    os.environ[PARENT] = str(os.getpid())
    readiness.start_thread(_announce, folder, processes, port)


@contextlib.contextmanager
def folder_of_failures() -> Iterator[None]:
    """Inside the block, workers can report why they fail although `expect` was not called."""
    with tempfile.TemporaryDirectory(prefix="workers-") as folder:
        temporary_folders.append(folder)
        os.environ[FOLDER] = folder
        yield


def report() -> str:
    """Report that this worker is ready, end it with its parent, and return the task to serve.

    The report of a worker that starts after the announcement, as a replacement, is ignored.
    """
    task = work()
    ready()
    return task


def work() -> str:
    """End this worker with its parent, and return the task or application to serve."""
    if (parent := int(os.environ[PARENT])) != os.getpid():
        prctl.end_with(parent)
        probe.join_counts()
    return os.environ[TASK]


def ready() -> None:
    """Report that this worker is ready; in a server without external workers do nothing."""
    if FOLDER in os.environ:
        # The folder is gone if this worker replaces another one.
        with contextlib.suppress(FileNotFoundError):
            Path(os.environ[FOLDER], f"{os.getpid()}-{threading.get_native_id()}").touch()


def fail(error: UserError) -> None:
    """Report why this worker, or a server without external workers, does not start."""
    global _failure
    _failure = error
    if FOLDER in os.environ:
        values = {"code": error.exit_code, "what": error.what, "remedy": error.remedy}
        with contextlib.suppress(OSError):  # another worker has failed, and the server has ended
            files.replace(Path(os.environ[FOLDER], FAILED), dumps(values).encode())


def raise_failure() -> None:
    """Raise the error of this process or a worker; block if another thread is reporting it."""
    error = _failure or _read_failure()
    if error is not None:
        _reporting.acquire()  # never released: the other thread must not report it too
        raise error


def _read_failure() -> UserError | None:
    """Return the error that a worker has reported."""
    try:
        values = loads(Path(os.environ[FOLDER], FAILED).read_bytes())
    except (OSError, KeyError):
        return None
    return kind_of(values["code"])(values["what"], values["remedy"])


def become_parent() -> None:
    """Make this child of the server a parent of workers: they end with it, it with the server.

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
            error = _read_failure()
            if error is None and time.monotonic() > until:
                what = f"the server's processes were not ready within {readiness.LIMIT:.0f} s"
                error = StartError(what, "check what the import of its task waits for")
            if error is not None:
                _end(folder, error)
            time.sleep(POLL)
    try:
        readiness.announce(port)
    except UserError as error:  # not raised: this is not the main thread
        _end(folder, error)


def _end(folder: tempfile.TemporaryDirectory[str], error: UserError) -> NoReturn:
    global _failure
    _failure = error
    with _reporting:
        folder.cleanup()
        readiness.abort_start(error)


def _count(folder: str) -> int:
    """Count the reports; -1 if the server is ending, and has removed the folder."""
    try:  # names of reports begin with a digit; those of FAILED and its temporary file do not
        return sum(each.name[0].isdigit() for each in Path(folder).iterdir())
    except FileNotFoundError:
        return -1


def _listens(port: int) -> bool:
    with (
        contextlib.suppress(OSError),
        socket.create_connection((addresses.reachable(readiness.address()), port), readiness.LIMIT),
    ):
        return True
    return False
