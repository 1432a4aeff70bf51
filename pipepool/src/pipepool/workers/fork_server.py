"""The fork server: a process of one thread that imports modules and forks workers on request.

It is a fresh interpreter with one thread, so a fork never copies a lock that another thread holds.
It reaps the workers, reports their exit status, and kills them when its parent ends or closes the
socket.
fork_server_client.py is the parent's side.

    to the fork server    FORK token (with two descriptors), KILL token, PING
    to the parent         READY threads pid, FAILED size (then a text), ENDED token status, PONG
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import gc
import importlib
import itertools
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from multiprocessing import process, resource_tracker, spawn, util
from typing import Any, NoReturn

from pipepool.workers.protocol import NO_SIGPIPE
from pipepool.workers.shared_memory import SharedMemory
from pipepool.workers.worker import Output, work

REQUEST = struct.Struct("=cQ")
REPORT = struct.Struct("=cQq")
FORK, KILL, PING = b"F", b"K", b"P"
READY, FAILED, ENDED, PONG = b"R", b"E", b"X", b"P"
# What a whole process group receives: the parent decides when the fork server and workers end.
GROUP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

PR_SET_PDEATHSIG = 1
KILL_TIMEOUT = 1.0  # s for killed workers to end


def main(descriptor: int, parent: int, tracker: int) -> NoReturn:
    """Serve the parent at the other end of a socket, and exit."""
    _open_standard_descriptors()
    _set_death_signal(signal.SIGKILL)  # during imports it does not poll for its parent's end
    _ignore_group_signals()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, GROUP_SIGNALS)
    for each in (descriptor, tracker):  # programs that an import starts must not keep them open
        os.set_inheritable(each, False)
    resource_tracker._resource_tracker._fd = tracker  # type: ignore[attr-defined]
    control = socket.socket(fileno=descriptor)
    control.settimeout(None)
    with control.makefile("rb") as file:
        prepared, identity, preload, grace = pickle.load(file)  # noqa: S301 - from the parent
    output = Output()
    output.replace_streams()  # before an import keeps a reference to one
    try:
        _prepare(prepared, identity, preload)
        output.write_through()
    except BaseException:  # noqa: BLE001 - an import may raise anything
        text = traceback.format_exc().encode()
        control.sendall(REPORT.pack(FAILED, len(text), 0) + text, NO_SIGPIPE)
        os._exit(1)
    with contextlib.suppress(Exception):  # else each worker would print what the imports printed
        sys.stdout.flush()
        sys.stderr.flush()
    _set_death_signal(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # not the mask of the application
    gc.collect()
    gc.freeze()
    with contextlib.suppress(BrokenPipeError):  # the parent has closed the pool meanwhile
        control.sendall(REPORT.pack(READY, threading.active_count(), os.getpid()), NO_SIGPIPE)
        # The variable keeps the server's sockets from being garbage-collected.
        server = _ForkServer(control, parent, os.dup(tracker), grace, output)
        server.serve()
    os._exit(0)  # as workers do: no exit handler of an imported module runs


def _set_death_signal(number: int) -> None:
    """Request a signal when the parent's thread that forked this process ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


def _open_standard_descriptors() -> None:
    """Open /dev/null in place of a closed stdin, stdout or stderr, such as those of a daemon.

    Otherwise the next descriptor, such as the shared memory, would be what C code writes errors to.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest free number, so this one
            os.set_inheritable(null, True)


def _prepare(prepared: dict[str, object], identity: tuple[int, ...], preload: list[str]) -> None:
    """Import the parent's main module, as multiprocessing does, and the modules to preload."""
    current: Any = process.current_process()
    current._identity = identity  # the parent's: those of the workers begin with it
    current._inheriting = True  # rejects a main without its guard
    try:
        spawn.prepare(prepared)
        for name in preload:
            importlib.import_module(name)
    finally:
        del current._inheriting


class _ForkServer:
    """Forks, kills and reaps the workers, which the parent identifies by tokens."""

    def __init__(
        self, control: socket.socket, parent: int, tracker: int, grace: float, output: Output
    ) -> None:
        self._control = control
        self._tracker = tracker
        self._grace = grace
        self._output = output
        self._workers: dict[int, int] = {}  # token by pid
        self._pid = os.getpid()
        self._wakeup, self._wakeup_write = socket.socketpair()
        for end in (self._wakeup, self._wakeup_write):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup_write.fileno())
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(self._wakeup, select.POLLIN)
        self._parent_pid, self._parent_pidfd = parent, -1
        if hasattr(os, "pidfd_open"):  # a process that the parent forked may keep its socket open
            with contextlib.suppress(OSError):
                self._parent_pidfd = os.pidfd_open(parent)
                self._poll.register(self._parent_pidfd, select.POLLIN)

    def serve(self) -> None:
        """Handle requests and ended workers until the parent has gone."""
        is_wanted = os.getppid() == self._parent_pid
        while is_wanted:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            if self._wakeup.fileno() in ready:
                self._reap()
            if self._control.fileno() in ready:
                is_wanted = self._handle_request()
            is_wanted = is_wanted and self._parent_pidfd not in ready
        self._end_workers()

    def _handle_request(self) -> bool:
        """Handle one request; return whether the parent is still there."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, REQUEST.size, 2)
        except ConnectionError:
            return False
        if len(data) < REQUEST.size:
            return False
        request, token = REQUEST.unpack(data)
        if request == FORK:
            return self._fork(token, descriptors)
        if request == PING:
            return self._report(PONG, 0, 0)
        for pid in [pid for pid, each in self._workers.items() if each == token]:
            os.kill(pid, signal.SIGKILL)  # it is not reaped yet, so its pid is still its own
        return True

    def _fork(self, token: int, descriptors: list[int]) -> bool:
        try:
            if len(descriptors) < 2:  # the kernel has dropped those above the limit
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            pid = os.fork()
        except OSError as error:  # report it as a worker that ended at once
            print(f"no worker can be forked: {error}", file=sys.stderr, flush=True)
            _close(descriptors)
            return self._report(ENDED, token, 1)
        if pid == 0:
            self._run_worker(token, *descriptors)
        _close(descriptors)
        self._workers[pid] = token
        return True

    def _run_worker(self, token: int, sock: int, memory: int) -> NoReturn:
        """Run a worker from the fork to the exit.

        It does what multiprocessing does around a child, in this order: `_bootstrap` is
        BaseProcess._bootstrap (process.py, line 290 in CPython 3.11.2 and 3.13.0), and `main` is
        forkserver.main (forkserver.py, line 265 in 3.13.0). Steps left out:

        * `_bootstrap` line 296 forces the start method: spawn.prepare did that before the fork.
        * `_bootstrap` line 299 closes stdin: it is /dev/null since the start of the fork server.
        * `_bootstrap` line 318 makes an exit code of SystemExit: tasks pass theirs to the caller.
        """
        code = 1
        try:
            # The signals and descriptors of the fork server (`main`).
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _ignore_group_signals()  # an import may have changed them
            _reset_signals_in_forks()
            _set_death_signal(signal.SIGKILL)
            if os.getppid() != self._pid:
                os._exit(1)
            for end in (self._control, self._wakeup, self._wakeup_write):
                end.close()
            # Since Python 3.14 a fork closes the descriptor that multiprocessing knows.
            resource_tracker._resource_tracker._fd = self._tracker  # type: ignore[attr-defined]
            atexit._clear()  # handlers of imported modules belong to the fork server (`main`)
            atexit.register(util._exit_function)  # type: ignore[attr-defined]

            # Who this process is, for multiprocessing (`_bootstrap`, lines 297 to 305).
            state: Any = process
            old = state._current_process  # must outlive _run_after_forkers (line 309)
            state._process_counter = itertools.count(token)
            state._current_process = worker = PipeWorker()  # named after the counter
            state._process_counter = itertools.count(1)
            state._children = set()  # else the exit would end processes that an import started
            if self._parent_pidfd >= 0:
                known = state._ParentProcess(old.name, self._parent_pid, self._parent_pidfd)
                state._parent_process = known
            threading.main_thread()._set_native_id()  # type: ignore[attr-defined]

            # What modules registered for a fork, such as to reset connections (line 307).
            worker._after_fork()  # type: ignore[attr-defined]
            del old

            # Run tasks (line 314).
            shared = SharedMemory(memory)
            os.close(memory)
            os.set_inheritable(sock, False)  # programs that a task starts must not keep it open
            with socket.socket(fileno=sock) as ours:
                ours.settimeout(None)  # not the default timeout of the application
                work(ours, shared, self._output)
            code = 0
        except BrokenPipeError:  # the parent has gone
            pass
        except BaseException:  # noqa: BLE001 - nothing may return to the loop of the fork server
            traceback.print_exc()
        finally:
            _end_worker(code)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wakeup.recv(4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            token = self._workers.pop(pid, None)
            if token is not None:
                self._report(ENDED, token, os.waitstatus_to_exitcode(status))

    def _report(self, word: bytes, token: int, number: int) -> bool:
        try:
            self._control.sendall(REPORT.pack(word, token, number), NO_SIGPIPE)
        except OSError:
            return False
        return True

    def _end_workers(self) -> None:
        deadline = time.monotonic() + self._grace
        self._poll.unregister(self._control)
        if self._parent_pidfd >= 0:
            self._poll.unregister(self._parent_pidfd)
        while self._workers and (left := deadline - time.monotonic()) > 0:
            self._poll.poll(1000 * left)
            self._reap()
        for pid in self._workers:
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + KILL_TIMEOUT
        while self._workers and (left := deadline - time.monotonic()) > 0:
            self._poll.poll(1000 * left)
            self._reap()
        signal.set_wakeup_fd(-1)  # a SIGCHLD must not write to a closed socket


class PipeWorker(process.BaseProcess):
    """The `multiprocessing.current_process()` of a worker."""


def _end_worker(code: int) -> NoReturn:
    """End a worker as CPython 3.13 ends a child, which has the better order than 3.11.

    The parent limits how long this may take.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined] # threads, executors (`_bootstrap`)
        atexit._run_exitfuncs()  # queues and child processes of multiprocessing, and what tasks did
    except BaseException:  # noqa: BLE001 - such as an exit handler's SystemExit
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):  # util._flush_std_streams raises
            sys.stdout.flush()
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(code)


def _close(descriptors: list[int]) -> None:
    for each in descriptors:
        os.close(each)


def _ignore_group_signals() -> None:
    """Ignore the signals of a process group, unless they are already ignored, as by nohup.

    Programs that a task starts would inherit SIG_IGN, so a handler is used instead.
    """
    for number in GROUP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _ignore)


def _ignore(_number: int, _frame: object) -> None:
    pass


def _reset_signals_in_forks() -> None:
    """In a fork of a task, restore the default actions of the signals that the worker ignores.

    The signals are blocked during a fork: Python clears those that arrive in a child before its
    Python code runs, so a child could not be ended at once.
    """
    saved = threading.local()

    def block() -> None:
        saved.mask = signal.pthread_sigmask(signal.SIG_BLOCK, GROUP_SIGNALS)

    def restore() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, saved.mask)

    def reset() -> None:
        for number in GROUP_SIGNALS:
            if signal.getsignal(number) is _ignore:  # else the task has set its own
                is_ctrl_c = number == signal.SIGINT
                signal.signal(number, signal.default_int_handler if is_ctrl_c else signal.SIG_DFL)
        restore()

    os.register_at_fork(before=block, after_in_parent=restore, after_in_child=reset)
