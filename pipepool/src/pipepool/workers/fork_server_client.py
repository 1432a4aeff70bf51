"""The parent's side of a fork server: it starts the process, and sends it requests."""

from __future__ import annotations

import array
import asyncio
import contextlib
import contextvars
import fcntl
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import warnings
from collections import deque
from multiprocessing import process, resource_tracker, spawn, util
from pathlib import Path
from typing import TYPE_CHECKING

from pipepool.workers.fork_server import (
    ENDED,
    FAILED,
    FORK,
    GROUP_SIGNALS,
    KILL,
    PING,
    READY,
    REPORT,
    REQUEST,
)
from pipepool.workers.protocol import NO_SIGPIPE, socket_pair

if TYPE_CHECKING:
    from pipepool.workers.worker_manager import WorkerManager

ORPHAN_GRACE = 0.3  # s for workers to end before they are killed when the application has ended
FINALIZER_GRACE = 5.0  # s, where the pool has a finalizer for them to run
END_TIMEOUT = 5.0  # s for the fork server to end its workers and itself

# The package is loaded by its place: sys.path never has its folder, which may contain a module
# named like one of the standard library. It has no "" either: that would be the current folder.
START = (
    "import sys; sys.path[:] = filter(None, sys.path); from importlib import machinery, util; "
    "spec = machinery.PathFinder.find_spec('pipepool', [{0!r}]); "
    "sys.modules['pipepool'] = package = util.module_from_spec(spec); "
    "spec.loader.exec_module(package); "
    "from pipepool.workers.fork_server import main; main({1}, {2}, {3})"
)
# A frozen program (PyInstaller) runs only code that begins like multiprocessing's own. Without this
# it would run itself again, and so would that.
FROZEN = "from multiprocessing.forkserver import main; "


class ForkServerClient:
    """The parent's side of one fork server, started at once. Requests wait until it is ready."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        preload: list[str],
        grace: float,
        manager: WorkerManager,
    ) -> None:
        self._loop = loop
        self._manager = manager
        self.end_timeout = END_TIMEOUT + grace
        self._waiting: list[tuple[int, socket.socket, int]] | None = []
        self._unsent: deque[tuple[bytes, list[int]]] = deque()  # it owns the descriptors
        self._data = b""
        self._is_closing = False
        self.ready_at = 0.0  # loop time at which it was ready, and waiting requests were sent
        self.ended = loop.create_future()
        self.heard_at = 0.0  # loop time of its last report
        identity = process.current_process()._identity
        first = pickle.dumps((_preparation(), identity, preload, grace))
        self._control, theirs = socket_pair()
        for end in (self._control, theirs):
            end.settimeout(None)  # not the default timeout of the application
        try:
            self._process = _start_process(theirs.fileno())
        except BaseException:
            self._control.close()
            raise
        finally:
            theirs.close()
        with contextlib.suppress(OSError):
            self._control.sendall(first, NO_SIGPIPE)
        self._control.setblocking(False)
        contextvars.Context().run(loop.add_reader, self._control, self._read)

    def fork(self, token: int, sock: socket.socket, memory: int) -> None:
        """Request a worker that gets this socket and memory; both are closed in this process."""
        if self._waiting is not None:
            self._waiting.append((token, sock, memory))
            return
        self._request(REQUEST.pack(FORK, token), [sock.detach(), memory])

    @property
    def is_ready(self) -> bool:
        """Whether the fork server has imported its modules and handles requests."""
        return self._waiting is None

    def kill(self, token: int) -> None:
        """Kill a worker; `worker_ended` is called as for any other end."""
        self._request(REQUEST.pack(KILL, token), [])

    def ping(self) -> None:
        """Request a report, which sets `heard_at`."""
        self._request(REQUEST.pack(PING, 0), [])

    @property
    def descriptor(self) -> int:
        """The descriptor of the connection, -1 after its end."""
        return self._control.fileno()

    @property
    def pid(self) -> int:
        """The process of the fork server."""
        return self._process.pid

    def close(self) -> None:
        """Close the connection: the fork server ends its workers and itself, and sets `ended`."""
        if self._waiting is not None and not self._is_closing:
            self._process.kill()  # it still imports, and has no worker
        self._is_closing = True
        for _, sock, memory in self._waiting or []:
            sock.close()
            os.close(memory)
        self._waiting = []
        self._drop_unsent()
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def kill_server(self, why: str) -> None:
        """Kill a fork server that does not end, for example after SIGSTOP; its workers end too."""
        if not self.ended.done():
            self._process.kill()
            self._end(why)

    def _request(self, data: bytes, descriptors: list[int]) -> None:
        self._unsent.append((data, descriptors))
        if len(self._unsent) == 1:
            self._write()
            if self._unsent:
                contextvars.Context().run(self._loop.add_writer, self._control, self._write)

    def _write(self) -> None:
        """Send as many requests as the socket accepts now; close descriptors that were sent."""
        while self._unsent:
            data, descriptors = self._unsent[0]
            try:
                passed = array.array("i", descriptors)
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)] if passed else []
                self._control.sendmsg([data], ancillary, NO_SIGPIPE)  # send_fds ignores flags
            except BlockingIOError:
                return
            except OSError:  # the fork server has ended: `_read` handles this
                pass
            self._unsent.popleft()
            for each in descriptors:
                os.close(each)
        with contextlib.suppress(OSError, ValueError):
            self._loop.remove_writer(self._control)

    def _read(self) -> None:
        try:
            data = self._control.recv(1 << 16)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._end("the fork server ended: see its output above")
            return
        self._data += data
        self.heard_at = self._loop.time()
        while len(self._data) >= REPORT.size:
            report, token, number = REPORT.unpack_from(self._data)
            size = REPORT.size + (token if report == FAILED else 0)
            if len(self._data) < size:
                return
            text, self._data = self._data[REPORT.size : size], self._data[size:]
            self._handle_report(report, token, number, text)

    def _handle_report(self, report: bytes, token: int, number: int, text: bytes) -> None:
        if report == READY:
            waiting, self._waiting = self._waiting or [], None
            self.ready_at = self._loop.time()
            for each in waiting:
                self.fork(*each)
            if token > 1:  # in a callback of its own, because a warning may be an error
                what = f"an import before the workers were forked started {token - 1} threads"
                self._loop.call_soon(_warn, f"{what}: a fork may deadlock")
        elif report == ENDED:
            self._manager.worker_ended(token, number)
        elif report == FAILED:
            self._end(f"an import before the workers were forked failed:\n{text.decode()}")

    def _drop_unsent(self) -> None:
        if self._unsent:
            self._loop.remove_writer(self._control)
        while self._unsent:
            for each in self._unsent.popleft()[1]:
                os.close(each)

    def _end(self, why: str) -> None:
        self._loop.remove_reader(self._control)
        self._drop_unsent()
        self._control.close()
        try:
            self._process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.close()
        if not self.ended.done():
            self.ended.set_result(None)
        self._manager.fork_server_ended(why)


def _warn(what: str) -> None:
    warnings.warn(what, RuntimeWarning, stacklevel=1)


def _start_process(descriptor: int) -> subprocess.Popen[bytes]:
    known = resource_tracker.getfd()  # shared by all processes, as in multiprocessing
    assert known is not None, "getfd starts it"
    tracker = fcntl.fcntl(known, fcntl.F_DUPFD_CLOEXEC, 3)
    root = str(Path(__file__).resolve().parents[2])
    program = START.format(root, descriptor, os.getpid(), tracker)
    if getattr(sys, "frozen", False):
        program = FROZEN + program
    flags: list[str] = util._args_from_interpreter_flags()  # type: ignore[attr-defined]
    executable = os.fsdecode(spawn.get_executable() or sys.executable)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, GROUP_SIGNALS)  # until `main` ignores them
    try:
        return subprocess.Popen(
            [executable, *flags, "-c", program],
            stdin=subprocess.DEVNULL,
            pass_fds=[descriptor, tracker],
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(tracker)


def _preparation() -> dict[str, object]:
    """Return what a child needs to import this process's main module, as multiprocessing does."""
    method = multiprocessing.get_start_method(allow_none=True)
    try:
        data = dict(spawn.get_preparation_data("fork server"))
    except FileNotFoundError as error:  # of getcwd
        raise FileNotFoundError(
            "the current folder was deleted: change to another one before the pool starts"
        ) from error
    if method is None:  # undo its choice: the application decides
        multiprocessing.set_start_method(None, force=True)
    main = data.get("init_main_from_path")
    if main is not None and not Path(str(main)).is_file():
        del data["init_main_from_path"]  # such as the name of a program that is not on disk
    data["authkey"] = bytes(data["authkey"])  # AuthenticationString refuses to be pickled
    data["name"] = process.current_process().name  # the name of the workers' parent_process()
    return data
