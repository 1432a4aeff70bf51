"""Prefork: child processes, forked before any event loop, each with its own Tornado server."""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from offload import prctl, tasks
from offload.errors import StartError
from offload.serving.applications import tornado_app
from offload.serving.applications.tornado_app import Run
from offload.serving.lifecycle import readiness
from offload.serving.lifecycle.stop_signal import stop
from offload.serving.metrics import probe
from offload.serving.pools import pool_workers
from offload.serving.protection import guards
from offload.serving.protection.guards import Protection

PAUSE = 0.05  # s before a dead process is replaced: repeated failures use little CPU


def serve(
    task: str,
    run: Run,
    port: int,
    backlog: int,
    processes: int,
    protection: Protection = guards.NONE,
) -> None:
    """Serve until a stop signal; every process then finishes its accepted requests."""
    tasks.resolve(task)
    with tornado_app.listen(port, backlog) as listening:
        respond = partial(tornado_app.serve_socket, run, listening, backlog, protection=protection)
        parent = _Parent(respond, processes)
        stop.set_callback(parent.stop)
        parent.wait_until_ready()
        readiness.announce(listening.getsockname()[1])
        parent.wait()


class _Parent:
    """The parent process, which replaces children that die."""

    def __init__(self, respond: Callable[..., None], processes: int) -> None:
        self._respond = respond
        self._ready_reader, self._ready_writer = os.pipe()  # one byte per process that serves
        self._pids: set[int] = set()
        for _ in range(processes):
            self._fork()

    def stop(self) -> None:
        """Send SIGTERM to all children."""
        for pid in tuple(self._pids):
            os.kill(pid, signal.SIGTERM)

    def wait_until_ready(self) -> None:
        """Wait until all children serve; raise StartError."""
        until = time.monotonic() + readiness.LIMIT
        for _ in range(len(self._pids)):
            timeout = max(0.0, until - time.monotonic())
            if not select.select([self._ready_reader], [], [], timeout)[0]:
                raise StartError(f"the processes were not ready within {readiness.LIMIT:.0f} s")
            os.read(self._ready_reader, 1)

    def wait(self) -> None:
        """Replace children that die; after a stop signal, wait until all have ended."""
        while self._pids:
            self._pids.discard(os.wait()[0])
            if stop.at is None:
                time.sleep(PAUSE)
                self._fork()

    def _fork(self) -> None:
        with pool_workers.block_signals():  # so that `stop` signals every child
            if stop.at is not None:
                return
            parent = os.getpid()  # before the fork: this process may end before the child runs
            pid = os.fork()
            if pid == 0:
                self._become_child(parent)
            self._pids.add(pid)
            probe.facts["worker_pids"] = sorted(self._pids)

    def _become_child(self, parent: int) -> NoReturn:
        code = 1
        try:
            prctl.end_with(parent)
            stop.listen(lambda: os._exit(0))  # the parent reports dropped requests
            # Replace the parent's callback, which stops the siblings.
            stop.set_callback(lambda: None)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, pool_workers.SIGNALS)
            self._respond(ready=self._ready)
            code = 0
        except BaseException:  # noqa: BLE001 - the child must not return into the parent's code
            traceback.print_exc()
        finally:
            os._exit(code)

    def _ready(self) -> None:
        os.write(self._ready_writer, b".")
