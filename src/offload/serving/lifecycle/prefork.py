"""Prefork: child processes, forked before any event loop, each with its own Tornado server.

The processes share one listening socket. With `reuse_port` each has a socket of its own on the same
port, and the kernel distributes new connections evenly, also to a process that is busy. All sockets
belong to the parent, so that the replacement of a process continues with its queue.
"""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from json import dumps, loads  # imported by name: a task may replace them
from types import TracebackType
from typing import NoReturn

from offload import prctl
from offload.errors import StartError, UserError, kind_of
from offload.registry.catalog import is_application
from offload.registry.entries import GuardSettings
from offload.serving.applications import tornado_app
from offload.serving.applications.tornado_app import Run
from offload.serving.lifecycle import drain, log, readiness
from offload.serving.lifecycle.drain import ListeningSocket
from offload.serving.lifecycle.stop_signal import DROPPED, exit_now, stop, temporary_folders
from offload.serving.metrics import probe, process_report
from offload.serving.metrics.task_clock import TimedResult
from offload.serving.pools import pool_workers
from offload.serving.protection import guards
from offload.serving.protection.guards import Protection

PAUSE = 0.05  # s before a dead process is replaced; doubled each time that one dies soon
LONGEST_PAUSE = 5.0  # s
SOON = 1.0  # s from the fork: a process that lives longer has started; a guess


Ready = Callable[[], None]  # reports that a process serves
Respond = Callable[[ListeningSocket, Ready], None]  # serves the connections of a socket


@dataclass(frozen=True)
class Port:
    """The port of a server, and the processes that share it."""

    number: int
    backlog: int
    processes: int
    reuse_port: str = "no"

    def listen(self, stack: ExitStack) -> list[ListeningSocket]:
        """Return one listening socket, or with reuse_port one for each process."""
        if self.reuse_port == "no":
            return [stack.enter_context(tornado_app.listen(self.number, self.backlog))]
        number, found = self.number, list[ListeningSocket]()
        for _ in range(self.processes):
            listening = tornado_app.listen(number, self.backlog, reuse_port=True)
            found.append(stack.enter_context(listening))
            number = listening.getsockname()[1]
        return found


def serve(task: str, run: Run, port: Port, protection: Protection = guards.NONE) -> None:
    """Serve until a stop signal; every process then finishes its accepted requests.

    A user's application is served instead of `run`; each process imports it.
    """

    def respond(listening: ListeningSocket, ready: Ready) -> None:
        if is_application(task):
            tornado_app.serve_application(task, listening, port.backlog, ready)
        else:
            tornado_app.serve_socket(run, listening, port.backlog, ready, protection)

    _serve(task, respond, port)


def serve_threads(
    task: str,
    create: Callable[[], ThreadPoolExecutor],
    run: Callable[[ThreadPoolExecutor], Awaitable[TimedResult]],
    workers: int,
    port: Port,
    guard: GuardSettings | None,
) -> None:
    """Serve like `serve`, with a pool of `workers` threads in each process.

    A single process is this one.
    """
    protected = guards.protect_threads(workers, guard)

    def respond(listening: ListeningSocket, ready: Ready) -> None:
        with create() as executor:
            pool_workers.start(executor, workers, task)
            own = partial(run, executor)
            tornado_app.serve_socket(own, listening, port.backlog, ready, protected)

    if port.processes > 1:
        probe.note_external_workers("tornado")
        _serve(task, respond, port)
        return
    with create() as executor:
        pool_workers.start(executor, workers, task)
        own = partial(run, executor)
        tornado_app.serve(own, port.number, port.backlog, protection=protected)


def _serve(task: str, respond: Respond, port: Port) -> None:
    if not is_application(task):
        pool_workers.import_in_time(task)
    with ExitStack() as stack:
        sockets = port.listen(stack)
        with _Parent(respond, sockets) as parent:
            number = sockets[0].getsockname()[1]
            parent.start(port.processes)
            readiness.announce(number)
            if not parent.wait():
                log.line("a process ended before it had finished its requests")
                readiness.end()
                exit_now(DROPPED)


class _Parent:
    """The parent process, which replaces children that die.

    It only reacts between two calls of select(), which a signal ends, and never in a signal
    handler. So it signals no child that it has already reaped, whose pid may be another process's.
    """

    def __init__(self, respond: Respond, sockets: Sequence[ListeningSocket]) -> None:
        self._respond = respond
        self._sockets = sockets
        self._free: list[ListeningSocket] = []  # with several: those without a process
        self._socket_of: dict[int, ListeningSocket] = {}  # of each child, by its pid
        self._error_reader, self._error_writer = os.pipe()  # why a child does not start
        self._ready_reader, self._ready_writer = os.pipe()  # one byte per process that serves
        self._wake_reader, self._wake_writer = os.pipe()  # one byte per signal
        self._started: dict[int, float] = {}  # the time of each child's start, by its pid
        self._due: list[float] = []  # the times at which dead children are replaced
        self._pause = PAUSE

    def __enter__(self) -> _Parent:
        os.set_blocking(self._wake_writer, False)
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        return self

    def __exit__(self, kind: object, error: object, trace: TracebackType | None) -> None:
        """Kill the children that are left, after an error."""
        signal.set_wakeup_fd(-1)
        for pid in self._started:
            os.kill(pid, signal.SIGKILL)
        for pid in self._started:
            os.waitpid(pid, 0)

    def start(self, processes: int) -> None:
        """Start the children and wait until all serve; raise StartError, or a child's error."""
        os.set_blocking(self._error_reader, False)
        self._free = [*self._sockets] if len(self._sockets) > 1 else [*self._sockets] * processes
        try:
            for _ in range(processes):
                self._fork()
        except OSError as error:
            what = f"{processes} processes do not start ({error.strerror})"
            raise StartError(what, "use fewer, processes=1") from error
        until = time.monotonic() + readiness.LIMIT
        missing = processes
        while missing and stop.at is None:
            timeout = until - time.monotonic()
            if timeout < 0:
                what = f"the processes were not ready within {readiness.LIMIT:.0f} s"
                raise StartError(what, "check how long the import takes, or use fewer processes")
            missing -= self._wait(timeout)
            if ended := self._reap():
                self._raise_error()
                code = os.waitstatus_to_exitcode(ended[0][1])
                what = f"a process ended while it started (exit code {code})"
                raise StartError(what, "see its output above")

    def wait(self) -> bool:
        """Replace children that die; after a stop signal, stop all and wait until they end.

        Return whether all children have finished their requests.
        """
        while stop.at is None:
            timeout = max(0.0, min(self._due) - time.monotonic()) if self._due else None
            self._wait(timeout)
            for lifetime, status in self._reap():
                self._schedule(lifetime, os.waitstatus_to_exitcode(status))
            for due in [each for each in self._due if each <= time.monotonic()]:
                self._due.remove(due)
                try:
                    self._fork()
                except OSError as error:  # a limit, for example of processes
                    pause = self._fork_later()
                    why = f"no process can be forked ({error.strerror})"
                    log.failure(f"{why}: it is tried again in {pause:.2f} s")
        for listening in self._sockets:
            drain.refuse_new(listening)
            listening.close()  # the children have it, too: the last one that ends closes it
        self._reap()  # those that died before the drain are not part of it
        for pid in self._started:
            os.kill(pid, signal.SIGTERM)
        has_finished = True
        while self._started:
            self._wait(None)
            has_finished &= not any(status for _, status in self._reap())
        return has_finished

    def _wait(self, timeout: float | None) -> int:
        """Wait for a signal, or for children that serve; return the number of those children."""
        found = select.select([self._ready_reader, self._wake_reader], [], [], timeout)[0]
        if self._wake_reader in found:
            os.read(self._wake_reader, 4096)
        return len(os.read(self._ready_reader, 4096)) if self._ready_reader in found else 0

    def _reap(self) -> list[tuple[float, int]]:
        """Reap the children that have ended; return the lifetime and the status of each."""
        found = []
        while self._started:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid in self._started:
                found.append((time.monotonic() - self._started.pop(pid), status))
                self._free.append(self._socket_of.pop(pid))
        return found

    def _schedule(self, lifetime: float, code: int) -> None:
        """Schedule the replacement of a child; repeated failures get longer and longer pauses."""
        if lifetime >= SOON:
            self._pause = PAUSE / 2
        pause = self._fork_later()
        log.failure(f"a process ended (exit code {code}), and is replaced in {pause:.2f} s")

    def _fork_later(self) -> float:
        """Schedule a fork; return the pause until then in seconds."""
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._due.append(time.monotonic() + self._pause)
        return self._pause

    def _fork(self) -> None:
        with pool_workers.block_signals():  # until the child has its own handlers
            if stop.at is not None:
                return
            parent = os.getpid()  # before the fork: this process may end before the child runs
            listening = self._free[-1]
            pid = os.fork()
            if pid == 0:
                self._become_child(parent, listening)
            self._socket_of[pid] = self._free.pop()
            self._started[pid] = time.monotonic()
            probe.facts["worker_pids"] = sorted(self._started)

    def _become_child(self, parent: int, listening: ListeningSocket) -> NoReturn:
        code = 1
        try:
            prctl.end_with(parent)
            temporary_folders.clear()  # they are the parent's
            readiness.report_errors_by(self._report_error)
            probe.join_counts()
            for each in self._sockets:
                if each is not listening:
                    each.close()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            stop.listen(lambda: os._exit(DROPPED))  # the parent reports dropped requests
            signal.pthread_sigmask(signal.SIG_UNBLOCK, pool_workers.SIGNALS)
            process_report.start()
            self._respond(listening, self._ready)
            code = 0
        except UserError as error:
            readiness.fail(error)
            code = error.exit_code
        except BaseException:  # noqa: BLE001 - the child must not return into the parent's code
            traceback.print_exc()
        finally:
            os._exit(code)

    def _report_error(self, error: UserError) -> None:
        values = [error.exit_code, error.what, error.remedy]
        os.write(self._error_writer, dumps(values).encode() + b"\n")

    def _raise_error(self) -> None:
        """Raise the error of a child that did not start, if it reported one."""
        with suppress(BlockingIOError):
            code, what, remedy = loads(os.read(self._error_reader, 1 << 16).splitlines()[0])
            raise kind_of(code)(what, remedy)

    def _ready(self) -> None:
        os.write(self._ready_writer, b".")


def _ignore(*_: object) -> None:
    """Handle a signal that only has to end select(): SIG_IGN would not."""
