"""The forks: workers that a zygote forks, kills and reaps as its parent asks, until its end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from multiprocessing import process, util
from typing import Any, NoReturn

from executors import _arena, _worker
from executors._control import ASK, ENDED, KILL, TELL, end_with_parent

GRACE = 0.3  # s for idle workers to see the end of their sockets before they are killed


class Forks:
    """The workers of one zygote, by what the parent calls them."""

    def __init__(self, control: socket.socket, parent: int) -> None:
        self._control = control
        self._workers: dict[int, int] = {}  # token by pid
        self._pid = os.getpid()
        self._wake, wakes = socket.socketpair()
        for end in (self._wake, wakes):
            end.setblocking(False)
        self._wakes = wakes
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes.fileno())
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        self._above, self._parent = parent, -1
        if hasattr(os, "pidfd_open"):  # a process that the parent forked may hold its socket open
            with contextlib.suppress(OSError):
                self._parent = os.pidfd_open(parent)
                self._poll.register(self._parent, select.POLLIN)

    def serve(self) -> None:
        """Fork, kill and reap until the parent is gone."""
        alive = os.getppid() == self._above
        while alive:
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            if self._wake.fileno() in ready:
                self._reap()
            if self._control.fileno() in ready:
                alive = self._answer()
            alive = alive and self._parent not in ready
        self._end()

    def _answer(self) -> bool:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, ASK.size, 2)
        except ConnectionError:
            return False
        if len(data) < ASK.size:
            return False
        word, token = ASK.unpack(data)
        if word == KILL:
            for pid in [pid for pid, each in self._workers.items() if each == token]:
                os.kill(pid, signal.SIGKILL)  # not reaped yet, so its pid is still its own
            return True
        return self._fork(token, *descriptors)

    def _fork(self, token: int, sock: int, memory: int) -> bool:
        try:
            pid = os.fork()
        except OSError:  # no memory, no processes: as if it had died at once
            os.close(sock)
            os.close(memory)
            return self._tell(ENDED, token, 1)
        if pid == 0:
            self._become_worker(token, sock, memory)
        os.close(sock)
        os.close(memory)
        self._workers[pid] = token
        return True

    def _introduce(self, token: int) -> None:
        """Have multiprocessing name this worker and know its parent, the application."""
        current = process.current_process()
        parent, current.name = current.name, f"PipeWorker-{token}"
        if self._parent >= 0:
            known = process._ParentProcess(parent, self._above, self._parent)  # type: ignore[attr-defined]
            process._parent_process = known  # type: ignore[attr-defined]

    def _become_worker(self, token: int, sock: int, memory: int) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _stay()
            end_with_parent(signal.SIGKILL)
            if os.getppid() != self._pid:
                os._exit(1)
            for end in (self._control, self._wake, self._wakes):
                end.close()
            self._introduce(token)
            shared = _arena.Memory(memory)
            os.close(memory)
            with socket.socket(fileno=sock) as ours:
                _worker.work(ours, shared)
            util._exit_function()  # type: ignore[attr-defined] # what multiprocessing's children do
            code = 0
        except BrokenPipeError:  # the parent has gone
            pass
        except BaseException:  # noqa: BLE001 - nothing may return into the zygote's loop
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake.recv(4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            token = self._workers.pop(pid, None)
            if token is not None:
                self._tell(ENDED, token, os.waitstatus_to_exitcode(status))

    def _tell(self, word: bytes, token: int, number: int) -> bool:
        try:
            self._control.sendall(TELL.pack(word, token, number))
        except OSError:
            return False
        return True

    def _end(self) -> None:
        deadline = time.monotonic() + GRACE
        self._poll.unregister(self._control)
        if self._parent >= 0:
            self._poll.unregister(self._parent)
        while self._workers and (left := deadline - time.monotonic()) > 0:
            self._poll.poll(1000 * left)
            self._reap()
        for pid in self._workers:
            os.kill(pid, signal.SIGKILL)
        signal.set_wakeup_fd(-1)  # its socket is closed next, and a last worker may still end


def _stay() -> None:
    """Ignore SIGINT and SIGTERM, which a whole process group receives: the parent ends workers.

    Handlers do it, not SIG_IGN: programs that a task starts get the default, and so do its forks.
    """
    worker = os.getpid()
    usual: dict[int, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }

    def pass_over(number: int, _: object) -> None:
        if os.getpid() != worker:
            signal.signal(number, usual[number])
            os.kill(os.getpid(), number)

    for number in usual:
        signal.signal(number, pass_over)
