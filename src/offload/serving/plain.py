"""Run plain servers: programs without this project's code, as a reference for the others."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from offload import tasks
from offload.errors import UserError
from offload.serving.lifecycle import ports, readiness
from offload.serving.lifecycle.stop_signal import exit_now, stop

DEADLINE = 10.0  # s until the program listens
POLL = 0.005  # s


def serve(program: Callable[..., None], task: str, port: int, **settings: object) -> None:
    """Run a program with a task's function; it is ready when it accepts a connection.

    A stop signal ends it at once, without a drain.
    """
    work = tasks.resolve(task)
    with ports.binding(port), socket.create_server(("127.0.0.1", port)) as free:
        port = free.getsockname()[1]
    stop.set_callback(_end)
    readiness.start_thread(_announce, port)
    program(work, port, **settings)


def _announce(port: int) -> None:
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(POLL)
        else:
            try:
                readiness.announce(port)
            except UserError as error:  # not raised: the program runs in the main thread
                readiness.abort_start(error)
            return


def _end() -> None:
    readiness.end()
    exit_now(0)
