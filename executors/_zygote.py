"""The zygote: a process of one thread that imports, freezes, and then forks workers on request.

It is a fresh interpreter, so no thread of its parent's can hold a lock in it. It reaps the workers,
tells their exit status, and ends them all as soon as its parent has ended or let go of it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pickle
import signal
import socket
import threading
import traceback
from multiprocessing import process, resource_tracker, spawn
from typing import NoReturn

from executors._control import FAILED, HELLO, TELL, end_with_parent
from executors._forks import Forks


def main(descriptor: int, parent: int, tracker: int) -> NoReturn:
    """Serve the parent at the other end of a socket, and end."""
    end_with_parent(signal.SIGKILL)  # while imports keep it from seeing the end of its parent
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent's to act on; the end is its end
        signal.signal(number, signal.SIG_IGN)
    resource_tracker._resource_tracker._fd = tracker  # type: ignore[attr-defined]
    control = socket.socket(fileno=descriptor)
    with control.makefile("rb") as file:
        prepared, preload = pickle.load(file)  # noqa: S301 - from the parent
    try:
        _prepare(prepared, preload)
    except BaseException:  # noqa: BLE001 - an import may raise anything
        text = traceback.format_exc().encode()
        control.sendall(TELL.pack(FAILED, len(text), 0) + text)
        os._exit(1)
    end_with_parent(0)
    gc.collect()
    gc.freeze()
    with contextlib.suppress(BrokenPipeError):  # the parent gave up meanwhile
        control.sendall(TELL.pack(HELLO, threading.active_count(), os.getpid()))
        Forks(control, parent).serve()
    os._exit(0)  # what was imported here has its ending in the workers


def _prepare(prepared: dict[str, object], preload: list[str]) -> None:
    """Import the parent's main module, as multiprocessing does, and what is to be preloaded."""
    current = process.current_process()
    current._inheriting = True  # type: ignore[attr-defined] # a main without its guard is refused
    try:
        spawn.prepare(prepared)
        for name in preload:
            importlib.import_module(name)
    finally:
        del current._inheriting  # type: ignore[attr-defined]
