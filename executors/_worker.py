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
        while frames:  # and keep none of what they bring while waiting for the next
            worker.run(*frames.pop(0))


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
        self._context = contextvars.copy_context()  # of which every task gets a copy of its own

    def run(self, entries: list[_wire.Entry], blob: memoryview) -> None:
        """Run the tasks of one frame; their results leave together, but none waits for long."""
        words, out, longest = self._words, self._outbox.entries, self._longest
        now = held = monotonic_ns()
        for sequence, number, code, kind, payload in entries:
            if out and now - held + longest.get(number, 0.0) > HOLD:
                self._send()
                now = monotonic_ns()  # the parent may have been slow to take it
            if code is not None:
                self._functions[number] = code
            words[_arena.STARTED] = begin = now  # before RUNNING: a reader takes them in reverse
            words[_arena.RUNNING] = sequence
            if READY < sequence <= words[_arena.RECALLED]:
                self._skip(sequence)
                self._decoder.discard(kind, payload)
                continue
            answer = self._answer(sequence, number, kind, payload, blob)
            now = monotonic_ns()
            words[_arena.ENDED] = sequence
            if not out:
                held = now
            took = now - begin
            longest[number] = max(took, longest.get(number, 0.0) * FORGET)
            out.append((sequence, *answer, took))
            if self._outbox.has_blob:  # the next task may write to what this one returned
                self._send()
                now = monotonic_ns()
        self._send()

    def _skip(self, sequence: int) -> None:
        """Answer that a task was not run; what was run before it is answered first."""
        words, out = self._words, self._outbox.entries
        if words[_arena.SKIPPED] != sequence - 1 or not out:
            self._send()
            words[_arena.SKIPS] = sequence
        words[_arena.SKIPPED] = sequence
        out.append((sequence, _wire.SKIPPED, None, 0))

    def _answer(
        self, sequence: int, number: int, kind: int, payload: Any, blob: memoryview
    ) -> tuple[int, Any]:
        try:
            if sequence == READY:
                return self._begin(self._decoder.decode(kind, payload, blob))
            if kind == _wire.PLAIN:
                function = self._function(number)
                return self._outbox.encode(self._context.copy().run(function, *payload))
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
        self._context = contextvars.copy_context()  # with what the initializer has set
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
        context = self._context.copy()
        for position, value in values or ():
            context.run(self._variables[position].set, value)
        return context.run(function, *args, **kwargs)

    def _send(self) -> None:
        if not self._outbox.entries:
            return
        for part in self._outbox.frame():
            self._socket.sendall(part)


def _failure(error: BaseException) -> tuple[bytes, str]:
    """Make of an exception its pickle, proven to load, and its traceback as text."""
    words = type(error).__name__
    try:
        text = "".join(traceback.format_exception(type(error), error, _own_frames_off(error)))
        words = f"{words}: {error}"
    except BaseException:  # noqa: BLE001 - whatever its __str__ raises
        words = f"{words}: (its text could not be made)"
        text = "".join([*traceback.format_tb(_own_frames_off(error)), words, "\n"])
    try:
        if isinstance(error, SystemExit):
            error = TaskExit(f"the task called sys.exit({error.code!r})", _plain(error.code))
        elif not isinstance(error, Exception):
            error = TaskExit(f"the task raised {words}")
        data = pickle.dumps(error, 5)
        pickle.loads(data)  # noqa: S301
    except BaseException:  # noqa: BLE001 - whatever its __repr__, __reduce__ or __init__ raise
        data = pickle.dumps(RemoteError(words), 5)
    return data, text


def _own_frames_off(error: BaseException) -> Any:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _plain(value: object) -> object:
    return value if isinstance(value, int | str | None) else repr(value)
