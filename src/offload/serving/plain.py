"""Run plain servers: programs without this project's code, as a reference for the others."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress

from offload import tasks
from offload.errors import StartError, UserError
from offload.serving.lifecycle import readiness
from offload.serving.lifecycle.stop_signal import exit_now, stop

POLL = 0.005  # s


def serve(program: Callable[..., None], task: str, port: int, **settings: object) -> None:
    """Run a program with a task's function; it is ready when it accepts a connection.

    A stop signal ends it at once, without a drain.
    """
    work = tasks.resolve(task)
    with readiness.binding(port), socket.create_server(("127.0.0.1", port)) as free:
        port = free.getsockname()[1]
    stop.set_callback(_end)
    readiness.start_thread(_announce, port)
    program(work, port, **settings)


def _announce(port: int) -> None:
    """Announce the program, or end it: it runs in the main thread, so nothing can be raised."""
    until = time.monotonic() + readiness.LIMIT
    while not _accepts(port):
        if time.monotonic() > until:
            what = f"the program did not listen within {readiness.LIMIT:.0f} s"
            readiness.abort_start(StartError(what, "check what it waits for"))
        time.sleep(POLL)
    try:
        readiness.announce(port)
    except UserError as error:
        readiness.abort_start(error)


def _accepts(port: int) -> bool:
    with suppress(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    return False


def _end() -> None:
    readiness.end()
    exit_now(0)
