"""The nursery: the parent's end of the zygote, which it starts and asks for workers."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Sequence
from multiprocessing import process, resource_tracker, spawn, util
from pathlib import Path
from typing import Protocol

from executors._control import ASK, ENDED, FAILED, FORK, HELLO, KILL, TELL
from executors._link import detached

# The path of this package is for its own import alone: it must not hide what the application has.
START = (
    "import sys; sys.path.insert(0, {0!r}); from executors._zygote import main; "
    "sys.path.remove({0!r}); main({1}, {2}, {3})"
)
ROOT = str(Path(__file__).resolve().parent.parent)
ENDING = 5.0  # s for the zygote to end its workers and itself


class Listener(Protocol):
    """Who is told what happens to the workers, by the token that they were asked for with."""

    def ended(self, token: int, status: int) -> None: ...
    def gone(self, why: str) -> None: ...


class Nursery:
    """One zygote, started at once; what is asked of it before it is ready waits."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, preload: Sequence[str], listener: Listener
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._waiting: list[tuple[int, socket.socket, int]] | None = []
        self._unsent: deque[tuple[bytes, list[int]]] = deque()  # with descriptors of their own
        self._data = b""
        self._closing = False
        self.ended = loop.create_future()
        first = pickle.dumps((_preparation(), list(preload)))
        self._control, theirs = socket.socketpair()
        try:
            self._process = _start(theirs.fileno())
        except BaseException:
            self._control.close()
            raise
        finally:
            theirs.close()
        with contextlib.suppress(OSError):
            self._control.sendall(first)
        self._control.setblocking(False)
        detached(loop.add_reader, self._control, self._read)

    def fork(self, token: int, sock: socket.socket, memory: int) -> None:
        """Ask for a worker with one end of a socket pair and its memory; both are closed here."""
        if self._waiting is not None:
            self._waiting.append((token, sock, memory))
            return
        self._ask(ASK.pack(FORK, token), [sock.detach(), memory])

    def kill(self, token: int) -> None:
        """End a worker now; that it ended is told as always."""
        self._ask(ASK.pack(KILL, token), [])

    def close(self) -> None:
        """Let go of the zygote, which ends its workers and then itself; `ended` says when."""
        if self._waiting is not None and not self._closing:
            self._process.kill()  # it still imports, and has no worker
        self._closing = True
        for _, sock, memory in self._waiting or []:
            sock.close()
            os.close(memory)
        self._waiting = []
        self._drop_unsent()
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def _ask(self, words: bytes, descriptors: list[int]) -> None:
        self._unsent.append((words, descriptors))
        if len(self._unsent) == 1:
            self._write()
            if self._unsent:
                detached(self._loop.add_writer, self._control, self._write)

    def _write(self) -> None:
        """Send what was asked, as far as the socket takes it now; close what was handed over."""
        while self._unsent:
            words, descriptors = self._unsent[0]
            try:
                socket.send_fds(self._control, [words], descriptors)
            except BlockingIOError:
                return
            except OSError:  # a zygote that is gone is noticed by its end
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
            self._end("the zygote ended: see its own words above")
            return
        self._data += data
        while len(self._data) >= TELL.size:
            word, token, number = TELL.unpack_from(self._data)
            size = TELL.size + (token if word == FAILED else 0)
            if len(self._data) < size:
                return
            text, self._data = self._data[TELL.size : size], self._data[size:]
            self._tell(word, token, number, text)

    def _tell(self, word: bytes, token: int, number: int, text: bytes) -> None:
        if word == HELLO:
            waiting, self._waiting = self._waiting or [], None
            for each in waiting:
                self.fork(*each)
            if token > 1:  # in a call of its own, for a warning may be an error
                what = f"what is imported before the workers began {token - 1} threads"
                self._loop.call_soon(_warn, f"{what}: a fork may deadlock")
        elif word == ENDED:
            self._listener.ended(token, number)
        elif word == FAILED:
            self._end(f"what is imported before the workers fails:\n{text.decode()}")

    def end_at_once(self) -> None:
        """Kill a zygote that has not ended, such as a stopped one; its workers die with it."""
        if not self.ended.done():
            self._process.kill()
            self._end("the zygote did not end")

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
            self._process.wait(ENDING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.close()
        if not self.ended.done():
            self.ended.set_result(None)
        self._listener.gone(why)


def _warn(what: str) -> None:
    warnings.warn(what, RuntimeWarning, stacklevel=1)


def _start(descriptor: int) -> subprocess.Popen[bytes]:
    tracker = resource_tracker.getfd()  # one for all, as multiprocessing has it
    assert tracker is not None, "getfd has begun it"
    program = START.format(ROOT, descriptor, os.getpid(), tracker)
    flags: list[str] = util._args_from_interpreter_flags()  # type: ignore[attr-defined]
    executable = os.fsdecode(spawn.get_executable() or sys.executable)
    return subprocess.Popen(
        [executable, *flags, "-c", program],
        stdin=subprocess.DEVNULL,
        pass_fds=[descriptor, tracker],
    )


def _preparation() -> dict[str, object]:
    """Say, as multiprocessing does, how a child gets this process's path and main module."""
    method = multiprocessing.get_start_method(allow_none=True)
    data = dict(spawn.get_preparation_data("zygote"))
    if method is None:  # asking for the data has chosen one, which is the application's to do
        multiprocessing.set_start_method(None, force=True)
    data["authkey"] = bytes(data["authkey"])  # it refuses to be pickled
    data["name"] = process.current_process().name  # to which the workers' parent_process() leads
    return data
