"""Processes that are forked before there is any loop, each with a Tornado server of its own."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
import traceback
from typing import NoReturn

from offload import prctl, tasks
from offload.errors import StartError
from offload.serving.applications import tornado_app
from offload.serving.applications.tornado_app import Run
from offload.serving.lifecycle import readiness
from offload.serving.lifecycle.stop_signal import stop
from offload.serving.metrics import probe
from offload.serving.pools import pool_workers

READY = 10.0  # s for all processes to serve
PAUSE = 0.05  # s before a process that died is replaced: those that cannot begin take no CPU


def serve(task: str, run: Run, port: int, backlog: int, processes: int) -> None:
    """Serve until a stop signal, which every process answers by ending what it has accepted."""
    tasks.resolve(task)
    with tornado_app.listen(port, backlog) as listening:
        parent = _Parent(run, listening, backlog, processes)
        stop.then(parent.stop)
        parent.wait_until_ready()
        readiness.announce(listening.getsockname()[1])
        parent.wait()


class _Parent:
    """The process that has the others, and replaces those that die."""

    def __init__(self, run: Run, listening: socket.socket, backlog: int, processes: int) -> None:
        self._run = run
        self._listening = listening
        self._backlog = backlog
        self._heard, self._tells = os.pipe()  # a byte for each process that serves
        self._pids: set[int] = set()
        for _ in range(processes):
            self._fork()

    def stop(self) -> None:
        """Ask all to end."""
        for pid in tuple(self._pids):
            os.kill(pid, signal.SIGTERM)

    def wait_until_ready(self) -> None:
        """Return when all serve; raise StartError."""
        until = time.monotonic() + READY
        for _ in range(len(self._pids)):
            if not select.select([self._heard], [], [], max(0.0, until - time.monotonic()))[0]:
                raise StartError(f"the processes were not ready within {READY:.0f} s")
            os.read(self._heard, 1)

    def wait(self) -> None:
        """Wait for the end of all, after a stop signal; until then, replace who dies."""
        while self._pids:
            self._pids.discard(os.wait()[0])
            if stop.at is None:
                time.sleep(PAUSE)
                self._fork()

    def _fork(self) -> None:
        with pool_workers.signals_held():  # a stop finds every process that there is
            if stop.at is not None:
                return
            pid = os.fork()
            if pid == 0:
                self._become_child()
            self._pids.add(pid)
            probe.facts["worker_pids"] = sorted(self._pids)

    def _become_child(self) -> NoReturn:
        code = 1
        try:
            prctl.end_with(os.getppid())
            stop.listen(lambda: os._exit(0))  # what it cuts off is the parent's to say
            stop.then(lambda: None)  # to end its siblings, too
            signal.pthread_sigmask(signal.SIG_UNBLOCK, pool_workers.SIGNALS)
            tornado_app.serve_socket(self._run, self._listening, self._backlog, self._ready)
            code = 0
        except BaseException:  # noqa: BLE001 - nothing may return into the parent's code
            traceback.print_exc()
        finally:
            os._exit(code)

    def _ready(self) -> None:
        os.write(self._tells, b".")
