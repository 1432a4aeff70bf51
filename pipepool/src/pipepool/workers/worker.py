"""A worker: receive a frame of tasks, run them one after the other, send their results.

Before each task the worker stores the task's sequence number and the time in the status block. So
the parent knows, without a message, which task was running when a worker died, and since when.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import io
import os
import pickle
import select
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic_ns
from typing import Any, NamedTuple, NoReturn

from pipepool.workers import shared_memory
from pipepool.workers.protocol import (
    CREDIT,
    FAILED,
    ITEM,
    PLAIN,
    SETUP,
    SKIPPED,
    Decoder,
    Encoder,
    Entry,
    Frame,
    FrameReader,
    Outbox,
    RemoteError,
    TaskExit,
)
from pipepool.workers.shared_memory import SharedMemory

HOLD = 100_000  # ns that a result may wait for the next one, to share a frame with it
LONGEST_DECAY = 0.9  # each shorter run multiplies the longest run time by this
MAX_TASKS_TO_POLL = 8  # if more arrive together the parent is busy: do not poll
LONGEST_WAIT = 1_000_000  # ns; longer waits are clamped to this in the moving average
WAIT_WEIGHT = 0.25  # weight of the last wait in the moving average

yield_cpu = getattr(os, "sched_yield", partial(time.sleep, 0))


class Setup(NamedTuple):
    """The configuration that each worker gets before its first task."""

    initializer: Callable[..., object] | None
    initargs: tuple[Any, ...]
    finalizer: Callable[[], object] | None
    variables: tuple[str, ...]
    busy_wait: int  # ns, see `AdaptiveWait`


class ContextVariables:
    """The context variables whose values are sent with each task."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._variables = [find_variable(path) for path in paths]

    def values(self) -> list[tuple[int, Any]]:
        """Return (position, value) of each variable that is set in the current context."""
        context = contextvars.copy_context()
        return [(i, context[v]) for i, v in enumerate(self._variables) if v in context]


def find_variable(path: str) -> contextvars.ContextVar[Any]:
    """Import a context variable by 'module:name'; raise ValueError if it is something else."""
    module, _, name = path.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, contextvars.ContextVar):
        raise ValueError(f"context={path!r} is not the 'module:name' of a context variable")
    return found


def work(sock: socket.socket, memory: SharedMemory, output: Output) -> None:
    """Run tasks for the parent at the other end of a socket until it closes the socket."""
    shared_memory.keep_freed_pages()
    wait = AdaptiveWait(sock)
    worker = _Worker(sock, memory, wait, output)
    while worker.frames or worker.receive():
        while worker.frames:  # keep no frame while waiting for the next
            worker.run(*worker.frames.popleft())
    worker.finish()


class Output:
    """What tasks print: it is written at the end of each task, since the next may be killed."""

    def __init__(self) -> None:
        self.marks: list[None] = []  # not empty after a write; the truth of a list costs least
        self._buffers: list[io.BufferedWriter] = []

    def replace_streams(self) -> None:
        """Replace the buffered streams by ones that record each write."""
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if type(stream) is io.TextIOWrapper and type(stream.buffer) is io.BufferedWriter:
                setattr(sys, name, self._replace(stream))
                setattr(sys, f"__{name}__", getattr(sys, name))

    def _replace(self, stream: io.TextIOWrapper) -> io.TextIOWrapper:
        marks = self.marks

        class Buffer(io.BufferedWriter):
            def write(self, data: Any, /) -> int:
                if not marks:
                    marks.append(None)
                return super().write(data)

        settings: dict[str, Any] = {
            "encoding": stream.encoding,
            "errors": stream.errors,
            "newline": "\n",
            "line_buffering": stream.line_buffering,
            "write_through": True,  # the text is kept in the buffer, which records it
        }
        mode, binary = stream.mode, stream.detach()
        raw = binary.detach()  # type: ignore[attr-defined] # of a BufferedWriter
        self._buffers.append(Buffer(raw))
        replaced = io.TextIOWrapper(self._buffers[-1], **settings)
        replaced.mode = mode  # type: ignore[misc] # as Python itself does
        return replaced

    def write_through(self) -> None:
        """Keep no text in streams that an import or initializer has put around these buffers."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and not stream.closed:
                stream.reconfigure(write_through=True)

    def flush(self) -> None:
        """Write what was printed; a stream that cannot be written to loses it, as at exit."""
        self.marks.clear()
        for buffer in self._buffers:
            with contextlib.suppress(Exception):
                buffer.flush()


class AdaptiveWait:
    """Wait until a socket has data: poll briefly if waits are short, then sleep.

    Waking a sleeping core, above all a virtual one, takes longer than the rest of a round trip. So
    a worker whose average wait is shorter than `busy_wait` ns polls for that long before it sleeps:
    during a steady stream of tasks it stays awake. After the last task it wastes a few times
    `busy_wait` of CPU time. Between two polls it yields its CPU to other processes (sched_yield).
    """

    def __init__(self, sock: socket.socket) -> None:
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        # The parent wakes a blocking recv each time it reads a result, but not a poll.
        self._poll = poll.poll
        self._average_wait = float(LONGEST_WAIT)
        self.busy_wait = 0

    def has_data(self) -> bool:
        """Whether the socket has data, or is closed at the other end."""
        return bool(self._poll(0))

    def wait_for_data(self, last_tasks: int) -> None:
        """Return when the socket has data, or is closed at the other end.

        `last_tasks` is the number of tasks that the last receive returned.
        """
        poll = self._poll
        began = now = monotonic_ns()
        has_data = None
        if self._average_wait < self.busy_wait and last_tasks <= MAX_TASKS_TO_POLL:
            while not (has_data := poll(0)) and now - began < self.busy_wait:
                yield_cpu()
                now = monotonic_ns()
        if not has_data:
            poll()
        waited = min(monotonic_ns() - began, LONGEST_WAIT)
        self._average_wait += (waited - self._average_wait) * WAIT_WEIGHT


class _Worker:
    def __init__(
        self, sock: socket.socket, memory: SharedMemory, wait: AdaptiveWait, output: Output
    ) -> None:
        self._reader = FrameReader(sock, pickle.loads)
        self._wait = wait
        self._output = output
        self.frames: deque[Frame] = deque()  # received and not run yet
        self._last_tasks = 0  # tasks received together last
        self._status = memory.status
        self._encoder = Encoder(memory.arena(shared_memory.RESULTS))
        self._outbox = Outbox(memory, self._encoder, sock)
        self._decoder = Decoder(memory.arena(shared_memory.ARGUMENTS))
        self._functions: dict[int, Any] = {}
        self._longest: dict[int, float] = {}
        self._finalizer: Callable[[], object] | None = None
        self._variables: list[contextvars.ContextVar[Any]] = []
        self._credits: dict[int, int] = {}  # items that a stream may send, by sequence number
        self._stopped: set[int] = set()  # streams that are to end
        # Whether this is a copy: a process that a task forked. It ends when it leaves the task.
        self._is_copy = False
        os.register_at_fork(after_in_child=self._set_copy)
        self._context = contextvars.copy_context()  # each task runs in a copy of it

    def receive(self) -> bool:
        """Wait for frames and receive them; return False when the parent closed the socket."""
        self._wait.wait_for_data(self._last_tasks)
        return self._receive()

    def _receive(self) -> bool:
        frames = self._reader.receive()
        if frames is None:
            return False
        self._last_tasks = 0
        for entries, blob in frames:
            self._last_tasks += len(entries)
            sequence, number, *_, items = entries[0]
            if number != CREDIT:
                self.frames.append((entries, blob))
            elif items:
                self._credits[sequence] = self._credits.get(sequence, 0) + items
            else:
                self._stopped.add(sequence)
        return True

    def _set_copy(self) -> None:
        self._is_copy = True

    def run(self, entries: list[Entry], blob: memoryview) -> None:
        """Run the tasks of one frame. Results are sent together, each at most HOLD late.

        If the next task takes longer than expected, the parent reads them in the outbox.
        """
        status, outbox, longest = self._status, self._outbox, self._longest
        encoder, printed = self._encoder, self._output.marks
        now = held_since = monotonic_ns()
        for sequence, number, code, kind, payload in entries:
            expected = longest.get(number, 0.0)
            if outbox.count and now - held_since + expected > HOLD:
                outbox.send()
                now = monotonic_ns()  # the parent may have been slow to read it
            if code is not None:
                self._functions[number] = code
            # STARTED before RUNNING: the parent reads RUNNING first.
            status[shared_memory.STARTED] = begin = now
            status[shared_memory.RUNNING] = sequence
            if SETUP < sequence <= status[shared_memory.REVOKED]:
                self._skip(sequence)
                self._decoder.discard(kind, payload)
                continue
            outcome, answer = self._run_entry(sequence, number, kind, payload, blob)
            if self._is_copy:  # forked while its arguments were loaded or its result was pickled
                _end_process()
            now = monotonic_ns()
            if not outbox.count:
                held_since = now
            took = now - begin
            expected *= LONGEST_DECAY
            longest[number] = took if took > expected else expected
            if printed:  # a later task may be killed
                self._output.flush()
            has_blob = bool(encoder.blob)
            outbox.put((sequence, outcome, answer, took), not has_blob)
            status[shared_memory.ENDED] = sequence
            if has_blob:  # the next task may change the buffer that this one returned
                outbox.send()
                now = monotonic_ns()
        outbox.send()

    def finish(self) -> None:
        """Run the finalizer; raise what it raises."""
        if self._finalizer is not None:
            self._finalizer()

    def _skip(self, sequence: int) -> None:
        """Report that a task was not run; results of tasks before it are sent first."""
        status = self._status
        if status[shared_memory.LAST_SKIPPED] != sequence - 1 or not self._outbox.count:
            self._outbox.send()
            status[shared_memory.FIRST_SKIPPED] = sequence
        status[shared_memory.LAST_SKIPPED] = sequence
        self._outbox.put((sequence, SKIPPED, None, 0))

    def _run_entry(
        self, sequence: int, number: int, kind: int, payload: Any, blob: memoryview
    ) -> tuple[int, Any]:
        try:
            if sequence == SETUP:
                return self._set_up(self._decoder.decode(kind, payload, blob))
            if kind == PLAIN:  # as most calls
                function = self._functions[number]
                if type(function) is bytes:
                    function = self._load_function(number)
                result = self._context.copy().run(function, *payload)
                if self._is_copy:
                    _end_process()
                return self._encoder.encode(result)
            call = self._decoder.decode(kind, payload, blob)
            if self._is_copy:
                _end_process()
            return self._encoder.encode(self._call(sequence, number, *call))
        except BaseException as error:  # noqa: BLE001 - it is passed to the caller
            if self._is_copy:
                _end_process(error)
            return FAILED, _dump_exception(error)

    def _set_up(self, pickled: bytes) -> tuple[int, Any]:
        """Resolve the context variables and run the initializer."""
        setup: Setup = pickle.loads(pickled)  # noqa: S301 - from our parent
        self._wait.busy_wait = setup.busy_wait
        self._variables = [find_variable(path) for path in setup.variables]
        result = None if setup.initializer is None else setup.initializer(*setup.initargs)
        if self._is_copy:
            _end_process()
        self._output.write_through()
        self._finalizer = setup.finalizer
        self._context = contextvars.copy_context()  # with the values that the initializer set
        try:
            return PLAIN, (os.getpid(), *self._encoder.encode(result))
        except Exception:  # noqa: BLE001 - the result is optional
            return PLAIN, (os.getpid(), PLAIN, None)

    def _load_function(self, number: int) -> Any:
        """Load a function with its first task, which fails if that fails."""
        self._functions[number] = function = pickle.loads(self._functions[number])  # noqa: S301
        return function

    def _call(
        self,
        sequence: int,
        number: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        extra: Any,
    ) -> object:
        function, values, credit = (None, None, None) if extra is None else extra
        if function is None:
            function = self._functions[number]
            if type(function) is bytes:
                function = self._load_function(number)
        context = self._context.copy()
        for position, value in values or ():
            context.run(self._variables[position].set, value)
        result = context.run(function, *args, **kwargs)
        if self._is_copy:
            _end_process()
        if credit is None:
            return result
        self._stream(sequence, context, result, credit)
        return None

    def _stream(self, sequence: int, context: contextvars.Context, items: Any, credit: int) -> None:
        """Send the items of an iterable one by one; after `credit` items, wait for more credit."""
        self._outbox.send()  # the results of earlier tasks
        while self._wait.has_data():  # the consumer may have gone already
            if not self._receive():
                raise BrokenPipeError
        status, end = self._status, object()
        iterator = iter(items)
        if self._is_copy:
            _end_process()
        try:
            while sequence not in self._stopped and status[shared_memory.STOPPED] != sequence:
                if not credit:
                    credit = self._credits.pop(sequence, 0)
                    if not credit and not self._receive():
                        raise BrokenPipeError
                    continue
                item = context.run(next, iterator, end)
                if self._is_copy:
                    _end_process()
                if item is end:
                    return
                entry = (sequence, ITEM, self._encoder.encode(item), 0)
                if self._is_copy:
                    _end_process()
                self._outbox.put(entry, False)
                self._outbox.send()
                credit -= 1
        finally:
            self._credits = {each: n for each, n in self._credits.items() if each > sequence}
            self._stopped = {each for each in self._stopped if each > sequence}
            if hasattr(iterator, "close"):
                context.run(iterator.close)


def _end_process(error: BaseException | None = None) -> NoReturn:
    """End this process as Python does, after an exception or normally; skip exit handlers."""
    code = 0 if error is None else 1
    try:
        if isinstance(error, SystemExit):
            if isinstance(error.code, int | None):
                code = (error.code or 0) & 0xFF
            else:
                print(error.code, file=sys.stderr)
        elif error is not None:
            traceback.print_exception(type(error), error, _without_own_frames(error))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)  # even if writing raised


def _dump_exception(error: BaseException) -> tuple[bytes, str]:
    """Return an exception as a pickle that can be loaded, and its traceback as text."""
    summary = type(error).__name__
    try:
        trace = _without_own_frames(error)
        text = "".join(traceback.format_exception(type(error), error, trace))
        summary = f"{summary}: {error}"
    except BaseException:  # noqa: BLE001 - whatever its __str__ raises
        summary = f"{summary}: (its text is unavailable)"
        text = "".join([*traceback.format_tb(_without_own_frames(error)), summary, "\n"])
    try:
        if isinstance(error, SystemExit):
            error = TaskExit(f"the task called sys.exit({error.code!r})", _plain(error.code))
        elif not isinstance(error, Exception):
            error = TaskExit(f"the task raised {summary}")
        data = pickle.dumps(error, 5)
        pickle.loads(data)  # noqa: S301
    except BaseException:  # noqa: BLE001 - whatever its __repr__, __reduce__ or __init__ raise
        data = pickle.dumps(RemoteError(summary), 5)
    return data, text


def _without_own_frames(error: BaseException) -> Any:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def _plain(value: object) -> object:
    return value if isinstance(value, int | str | None) else repr(value)
