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
from collections.abc import Sequence
from multiprocessing import spawn, util
from pathlib import Path
from typing import Protocol

from executors._control import ASK, ENDED, FAILED, FORK, HELLO, KILL, TELL

START = "import sys; sys.path.insert(0, {0!r}); from executors._zygote import main; main({1}, {2})"
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
        self._send(first)
        self._control.setblocking(False)
        loop.add_reader(self._control, self._read)

    def fork(self, token: int, sock: socket.socket, memory: int) -> None:
        """Ask for a worker with one end of a socket pair and its memory; both are closed here."""
        if self._waiting is not None:
            self._waiting.append((token, sock, memory))
            return
        with contextlib.suppress(OSError), sock:  # a zygote that is gone is noticed by its end
            socket.send_fds(self._control, [ASK.pack(FORK, token)], [sock.fileno(), memory])
        os.close(memory)

    def kill(self, token: int) -> None:
        """End a worker now; that it ended is told as always."""
        self._send(ASK.pack(KILL, token))

    def close(self) -> None:
        """Let go of the zygote, which ends its workers and then itself; `ended` says when."""
        self._closing = True
        for _, sock, memory in self._waiting or []:
            sock.close()
            os.close(memory)
        self._waiting = []
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def _send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._control.sendall(data)

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
            if token > 1:
                what = f"what is imported before the workers began {token - 1} threads"
                warnings.warn(f"{what}: a fork may deadlock", RuntimeWarning, stacklevel=1)
            waiting, self._waiting = self._waiting or [], None
            for each in waiting:
                self.fork(*each)
        elif word == ENDED:
            self._listener.ended(token, number)
        elif word == FAILED:
            self._end(f"what is imported before the workers fails:\n{text.decode()}")

    def _end(self, why: str) -> None:
        self._loop.remove_reader(self._control)
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


def _start(descriptor: int) -> subprocess.Popen[bytes]:
    program = START.format(ROOT, descriptor, os.getpid())
    flags: list[str] = util._args_from_interpreter_flags()  # type: ignore[attr-defined]
    executable = os.fsdecode(spawn.get_executable() or sys.executable)
    return subprocess.Popen(
        [executable, *flags, "-c", program], stdin=subprocess.DEVNULL, pass_fds=[descriptor]
    )


def _preparation() -> dict[str, object]:
    """Say, as multiprocessing does, how a child gets this process's path and main module."""
    method = multiprocessing.get_start_method(allow_none=True)
    data = dict(spawn.get_preparation_data("zygote"))
    if method is None:  # asking for the data has chosen one, which is the application's to do
        multiprocessing.set_start_method(None, force=True)
    data["authkey"] = bytes(data["authkey"])  # it refuses to be pickled
    return data
