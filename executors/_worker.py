"""A worker: receive a frame of tasks, run them in turn, send their results; until the end of file.

Before each task it stores the task's sequence and the time in the shared words, so that its parent
knows after any kind of death what was running, and since when, without a message.
"""

from __future__ import annotations

import contextvars
import importlib
import os
import pickle
import socket
import traceback
from time import monotonic_ns
from typing import Any

from executors import _arena, _wire
from executors._errors import RemoteError, TaskExit
from executors._inbox import Inbox
from executors._vigil import Vigil

HOLD = 100_000  # ns that a finished result may wait for the next one, to share a frame with it
FORGET = 0.9  # of the longest run that a function keeps when a run was shorter
READY = 0  # the sequence of a worker's first words: that it is ready, or why not


def work(sock: socket.socket, memory: _arena.Memory) -> None:
    """Work for the parent at the other end of a socket until it closes it."""
    _arena.keep_pages()
    inbox = Inbox(sock)
    vigil = Vigil(sock)
    worker = _Worker(sock, memory, vigil)
    while True:
        vigil.wait()
        frames = inbox.receive()
        if frames is None:
            return
        for entries, blob in frames:
            worker.run(entries, blob)


class _Worker:
    def __init__(self, sock: socket.socket, memory: _arena.Memory, vigil: Vigil) -> None:
        self._socket = sock
        self._vigil = vigil
        self._words = memory.words
        self._outbox = _wire.Outbox(memory.arena(_arena.ANSWERS))
        self._decoder = _wire.Decoder(memory.arena(_arena.ASKED))
        self._functions: dict[int, Any] = {}
        self._longest: dict[int, float] = {}
        self._variables: list[contextvars.ContextVar[Any]] = []

    def run(self, entries: list[_wire.Entry], blob: memoryview) -> None:
        """Run the tasks of one frame; their results leave together, but none waits for long."""
        words, out, longest = self._words, self._outbox.entries, self._longest
        now = held = monotonic_ns()
        for sequence, number, code, kind, payload in entries:
            if out and now - held + longest.get(number, 0.0) > HOLD:
                self._send()
            if code is not None:
                self._functions[number] = code
            words[_arena.STARTED] = begin = now  # before RUNNING: a reader takes them in reverse
            words[_arena.RUNNING] = sequence
            if READY < sequence <= words[_arena.RECALLED]:
                self._decoder.discard(kind, payload)
                out.append((sequence, _wire.SKIPPED, None, 0))
                continue
            answer = self._answer(sequence, number, kind, payload, blob)
            now = monotonic_ns()
            words[_arena.ENDED] = sequence
            if not out:
                held = now
            took = now - begin
            longest[number] = max(took, longest.get(number, 0.0) * FORGET)
            out.append((sequence, *answer, took))
        self._send()

    def _answer(
        self, sequence: int, number: int, kind: int, payload: Any, blob: memoryview
    ) -> tuple[int, Any]:
        try:
            if sequence == READY:
                return self._begin(self._decoder.decode(kind, payload, blob))
            if kind == _wire.PLAIN:
                return self._outbox.encode(self._function(number)(*payload))
            call = self._decoder.decode(kind, payload, blob)
            return self._outbox.encode(self._call(number, *call))
        except BaseException as error:  # noqa: BLE001 - a task's own, which is its caller's to see
            return _wire.FAILED, _failure(error)

    def _begin(self, setup: bytes) -> tuple[int, Any]:
        """Resolve the context variables and run the initializer."""
        initializer, initargs, variables, self._vigil.spin = pickle.loads(setup)  # noqa: S301 - from our parent
        for where in variables:
            module, _, name = where.partition(":")
            self._variables.append(getattr(importlib.import_module(module), name))
        told = None if initializer is None else initializer(*initargs)
        try:
            return self._outbox.encode((os.getpid(), told))
        except Exception:  # noqa: BLE001 - nobody was promised what it returns
            return self._outbox.encode((os.getpid(), None))

    def _function(self, number: int) -> Any:
        function = self._functions[number]
        if type(function) is bytes:  # unpickled by its first task, whose fault an import then is
            function = self._functions[number] = pickle.loads(function)  # noqa: S301
        return function

    def _call(
        self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any], more: Any
    ) -> object:
        function, values = (None, None) if more is None else more
        if function is None:
            function = self._function(number)
        if not values:
            return function(*args, **kwargs)
        context = contextvars.copy_context()
        for position, value in values:
            context.run(self._variables[position].set, value)
        return context.run(function, *args, **kwargs)

    def _send(self) -> None:
        for part in self._outbox.frame():
            self._socket.sendall(part)


def _failure(error: BaseException) -> tuple[bytes, str]:
    """Make of an exception its pickle, proven to load, and its traceback as text."""
    lines = traceback.format_exception(type(error), error, _own_frames_off(error))
    words = f"{type(error).__name__}: {error}"
    if isinstance(error, SystemExit):
        error = TaskExit(f"the task called sys.exit({error.code!r})", _plain(error.code))
    elif not isinstance(error, Exception):
        error = TaskExit(f"the task raised {words}")
    try:
        data = pickle.dumps(error, 5)
        pickle.loads(data)  # noqa: S301
    except Exception:  # noqa: BLE001 - whatever its __reduce__ or __init__ raise
        data = pickle.dumps(RemoteError(words), 5)
    return data, "".join(lines)


def _own_frames_off(error: BaseException) -> Any:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _plain(value: object) -> object:
    return value if isinstance(value, int | str | None) else repr(value)
