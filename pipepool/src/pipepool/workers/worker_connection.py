"""Tasks, and the parent's end of the connection to a worker that runs them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import enum
import functools
import marshal
import math
import pickle
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from time import monotonic_ns
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from pipepool.workers import shared_memory
from pipepool.workers.protocol import (
    CREDIT,
    NO_SIGPIPE,
    PLAIN,
    SETUP,
    Decoder,
    Encoder,
    Frame,
    FrameReader,
    are_plain,
    read_outbox,
    socket_pair,
)

if TYPE_CHECKING:
    from pipepool.scheduling.scheduler import Scheduler

T = TypeVar("T")
Future = asyncio.Future[Any] | concurrent.futures.Future[Any]

PLACEHOLDER = getattr(functools, "Placeholder", None)  # of a partial, since Python 3.14
SUSPECT = 5  # tasks that fail in a row, the first with SystemExit: the worker may be broken
EMPTY = memoryview(b"")
ESTIMATE_DECAY = 0.9  # each run multiplies the excess over the longest run by this


def in_empty_context(call: Callable[..., T], *args: Any) -> T:
    """Register a callback in an empty context, so that it keeps no context variables alive."""
    return contextvars.Context().run(call, *args)


class Function:
    """A function that is pickled once: later calls send its number.

    `estimate` is a decaying maximum of its run times in ns, None before the first run has ended.
    Number 0 is a callable with a state, such as a bound method: it is pickled with every call.
    """

    __slots__ = ("callable", "code", "estimate", "number")

    def __init__(self, number: int, callable_: Any, code: bytes | None) -> None:
        self.number = number
        self.callable = callable_
        self.code = code
        self.estimate: float | None = None

    def add_runs(self, longest: float, count: int = 1) -> None:
        """Update the estimate with `count` runs, the longest of which took `longest` ns."""
        estimate = self.estimate
        if estimate is None or longest > estimate:
            self.estimate = float(longest)
        else:
            self.estimate = longest + (estimate - longest) * ESTIMATE_DECAY**count


class Functions:
    """The functions of a pool, each pickled once."""

    def __init__(self) -> None:
        self._known: dict[Any, Function] = {}

    def get(self, callable_: Any) -> Function:
        """Return the function of a callable; raise what pickle raises, such as for a lambda."""
        kind = type(callable_)
        if kind is not FunctionType and kind is not type and not _is_builtin(callable_):
            return Function(0, callable_, None)
        known = self._known.get(callable_)
        if known is None:
            code = pickle.dumps(callable_, 5)
            known = self._known[callable_] = Function(len(self._known) + 1, callable_, code)
        return known


def _is_builtin(callable_: Any) -> bool:
    """Whether it belongs to a module, such as `len`: "x".upper has the same type."""
    return type(callable_) is BuiltinFunctionType and type(callable_.__self__) is ModuleType


def has_placeholders(function: functools.partial[Any]) -> bool:
    """Whether a partial has placeholders that later arguments fill."""
    return PLACEHOLDER is not None and any(each is PLACEHOLDER for each in function.args)


def check_seconds(name: str, seconds: Any) -> float | None:
    """Return a parameter as a float or None; raise TypeError if it is neither number nor None."""
    if seconds is None:
        return None
    try:
        value = float(seconds) if isinstance(seconds, Real) else math.nan
    except OverflowError:
        value = math.nan
    if math.isnan(value):
        raise TypeError(f"{name} must be a number of seconds or None, not {seconds!r}")
    return value


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one call; times are in seconds."""

    timeout: float | None = None
    queue_timeout: float | None = None
    idempotent: bool = False
    zero_copy_result: bool = False
    kill_on_cancel: bool = False
    zero_copy_args: bool = False

    def __post_init__(self) -> None:
        for name in ("timeout", "queue_timeout"):
            object.__setattr__(self, name, check_seconds(name, getattr(self, name)))


DEFAULTS = Options()


class Task:
    """One call: queued, ended, or held by the worker of `connection` under number `sequence`."""

    __slots__ = (
        "args",
        "connection",
        "cost",
        "deaths",
        "extra",
        "function",
        "future",
        "is_ended",
        "is_retried",
        "is_started",
        "kwargs",
        "on_item",
        "options",
        "returns",
        "run_ns",
        "sent",
        "sequence",
        "start_by",
        "submitted",
        "timer",
    )

    def __init__(
        self,
        function: Function,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        future: Future,
        options: Options,
        variables: list[tuple[int, Any]] | None = None,
        credit: int | None = None,
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.future = future
        self.options = options
        # What is sent beside the arguments: the callable itself, values of context variables, and
        # for a stream the number of items that the worker may send.
        self.extra = (
            (None if function.number else function.callable, variables, credit)
            if variables or not function.number or credit is not None
            else None
        )
        self.submitted = monotonic_ns()
        self.is_started = False  # it was sent once: its future cannot be cancelled now
        self.is_ended = False  # it has a result, or nobody waits for it
        self.is_retried = False
        self.returns = 0  # number of workers that received it and skipped it
        self.deaths = 0  # number of workers that died holding it, before they started it
        # None after its end: whoever keeps an error keeps its task, but not the worker's memory.
        self.connection: WorkerConnection | None = None
        self.sequence = self.sent = 0
        self.cost = 0.0  # ns that it adds to its worker's load
        self.timer: asyncio.TimerHandle | None = None
        self.start_by: float | None = None  # loop time before which a worker must take it
        self.on_item: Callable[[Any], None] | None = None  # receives the items of a stream
        self.run_ns: int | None = None  # its run time, when it is known


class WorkerState(enum.Enum):
    """The state of a worker; tasks are assigned to ACTIVE workers only."""

    STARTING = 1
    SPARE = 2  # ready, and not needed yet
    ACTIVE = 3
    RETIRING = 4  # it runs the tasks that it holds, and then ends
    DEAD = 5


class WorkerConnection:
    """The connection to one worker: its `tasks` by sequence number, its `load` in ns."""

    def __init__(
        self,
        token: int,
        loop: asyncio.AbstractEventLoop,
        scheduler: Scheduler,
        tasks_left: float,
        arena_size: int,
    ) -> None:
        self.token = token
        self.tasks_left = tasks_left  # until the worker is replaced
        self.pid: int | None = None
        self.initializer_result: Any = None
        self.exit_status: int | None = None
        self.state = WorkerState.STARTING
        self.tasks: dict[int, Task] = {}
        self.load = 0.0
        self.sequence = self.last_sent = 0
        self.is_killed = False  # by the pool
        self.is_killed_for_task = False  # to end the task that it ran
        self.start_timer: asyncio.TimerHandle | None = None  # of start_timeout
        self.has_backlog = False  # bytes that the socket has not taken yet
        self.setup_keys: Sequence[int] = ()  # of the descriptors that its setup refers to
        self.crashed: list[Task] = []  # tasks it ran when it died; waits for its exit status
        self._known_functions = {0}
        self._loop = loop
        self._scheduler = scheduler
        self._frames: deque[Frame] = deque()  # received and not handled yet
        self._bytes_sent = 0
        self._unsent: deque[memoryview] = deque()
        self.failures = 0  # tasks that failed in a row, the first with SystemExit or the like
        self.collected: set[int] = set()  # results that were read in the outbox, to be skipped
        self._socket, self.worker_socket = socket_pair()
        try:
            self.memory_descriptor, memory = shared_memory.create(arena_size)
        except BaseException:
            self._socket.close()
            self.worker_socket.close()
            raise
        self._memory, self.status = memory, memory.status
        self._encoder = Encoder(memory.arena(shared_memory.ARGUMENTS))
        self.decoder = Decoder(memory.arena(shared_memory.RESULTS))
        self._reader = FrameReader(self._socket, marshal.loads)
        self._socket.setblocking(False)
        self._descriptor = self._socket.fileno()
        in_empty_context(loop.add_reader, self._descriptor, self.read)

    def put(self, task: Task, cost: float, now: int) -> None:
        """Add a task, which the next `send` sends; raise what pickle raises."""
        kind, payload = PLAIN, task.args
        if task.kwargs or task.extra or not (not payload or are_plain(payload)):
            kind, payload = self._encoder.encode_call(
                task.args, task.kwargs, task.extra, task.options.zero_copy_args
            )
        function, code = task.function, None
        if function.number not in self._known_functions:
            self._known_functions.add(function.number)
            code = function.code
        self.sequence = sequence = self.sequence + 1
        self._encoder.entries.append((sequence, function.number, code, kind, payload))
        self.tasks[sequence] = task
        task.connection, task.sequence, task.cost, task.sent = self, sequence, cost, now
        self.load += cost
        self.tasks_left -= 1

    def grant(self, task: Task, items: int) -> None:
        """Allow the stream of a task to send `items` more items."""
        self._encoder.entries.append((task.sequence, CREDIT, None, PLAIN, items))
        try:
            self.send()
        except MemoryError:
            self._encoder.drop_calls()
            raise

    def stop_stream(self, task: Task) -> None:
        """Make the worker end a stream at its next item."""
        self.grant(task, 0)  # read when the stream starts, or waits for credit
        if self.status[shared_memory.RUNNING] == task.sequence:
            self.status[shared_memory.STOPPED] = task.sequence

    def set_up(self, setup: bytes) -> None:
        """Send the worker its configuration, such as its initializer."""
        self._encoder.entries.append((SETUP, 0, None, *self._encoder.encode(setup)))
        self.send()

    def send(self) -> None:
        """Send as much of the entries as the socket accepts now, and the rest later.

        Raise MemoryError if they cannot be copied; then `take_unsent` returns their tasks.
        """
        if not self._encoder.entries:
            return
        frame = self._encoder.frame()
        if not self.has_backlog and len(frame) == 1:
            head = frame[0]
            try:
                sent = self._socket.send(head, NO_SIGPIPE)
            except BlockingIOError:
                sent = 0
            except OSError:  # it died: `read` reports this at the end of the stream
                return
            self.last_sent = self.sequence
            self._bytes_sent += sent
            if sent == len(head):
                return
            frame = [memoryview(head)[sent:]]
        self.last_sent = self.sequence
        self._unsent.extend(map(memoryview, frame))
        if not self.has_backlog:
            self.has_backlog = True
            in_empty_context(self._loop.add_writer, self._descriptor, self._write)
            self._write()

    def take_unsent(self) -> tuple[list[Task], list[Task]]:
        """Take back the tasks that `send` could not send: with buffers to copy, and others."""
        large: list[Task] = []
        small: list[Task] = []
        for sequence, has_blob in self._encoder.drop_calls().items():
            task = self.tasks.pop(sequence)
            self.load -= task.cost
            self.tasks_left += 1
            if task.function.number:
                self._known_functions.discard(task.function.number)
            task.sent = 0
            (large if has_blob else small).append(task)
        return large, small

    def _write(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent[0], NO_SIGPIPE)
                self._bytes_sent += sent
                self._unsent[0] = self._unsent[0][sent:]
                if not self._unsent[0]:
                    self._unsent.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
        self.has_backlog = False
        self._loop.remove_writer(self._descriptor)

    @property
    def descriptor(self) -> int:
        """The descriptor of the socket, -1 after its end."""
        return self._socket.fileno()

    @property
    def is_suspect(self) -> bool:
        """Whether the worker may be broken, by a task that called sys.exit()."""
        return self.failures >= SUSPECT

    @property
    def transferred(self) -> int:
        """The bytes that were sent and received so far."""
        return self._bytes_sent + self._reader.received

    def read(self) -> None:
        """Receive once, and pass the frames to the scheduler."""
        try:
            frames = self._reader.receive()
        except BlockingIOError:
            return
        except Exception as error:  # noqa: BLE001 - not enough memory, or a damaged frame
            self._scheduler.manager.unreadable(self, error)
            return
        if frames is None:
            self._scheduler.manager.worker_disconnected(self)
            return
        self._frames.extend(frames)
        self._handle_frames()

    def _handle_frames(self) -> None:
        try:
            while self._frames:
                self._scheduler.results_received(self, *self._frames.popleft())
        finally:
            if self._frames:  # after KeyboardInterrupt, handle the rest later
                in_empty_context(self._loop.call_soon, self._handle_frames)

    def read_all(self) -> None:
        """Receive what a worker sent before it ended."""
        while self.state is not WorkerState.DEAD:
            try:
                frames = self._reader.receive()
            except Exception:  # noqa: BLE001 - nothing more can be read
                return
            if frames is None:
                return
            self._frames.extend(frames)
            self._handle_frames()

    def collect(self) -> None:
        """Pass on the results that the worker has not sent yet: it is busy, or it has died."""
        try:
            entries = [each for each in read_outbox(self._memory) if each[0] in self.tasks]
        except (EOFError, TypeError, ValueError):  # a task has damaged the memory
            return
        if entries:
            self.collected.update(each[0] for each in entries)
            self._scheduler.results_received(self, entries, EMPTY)

    def running(self) -> tuple[Task, int] | None:
        """Return the running task and its start, in ns of the monotonic clock."""
        sequence = self.status[shared_memory.RUNNING]
        started = self.status[shared_memory.STARTED]
        if self.status[shared_memory.ENDED] == sequence:
            return None
        task = self.tasks.get(sequence)
        return None if task is None else (task, started)

    def has_started(self, task: Task) -> bool:
        """Whether the worker started a task that it holds, and did not skip it."""
        status, sequence = self.status, task.sequence
        first, last = status[shared_memory.FIRST_SKIPPED], status[shared_memory.LAST_SKIPPED]
        return sequence <= status[shared_memory.RUNNING] and not first <= sequence <= last

    def revoke(self) -> None:
        """Make the worker skip all tasks that it has not started."""
        self.status[shared_memory.REVOKED] = self.sequence

    def stop_start_timer(self) -> None:
        """Stop the timer of start_timeout: the worker is ready, or has ended."""
        if self.start_timer is not None:
            self.start_timer.cancel()
            self.start_timer = None

    def stop_reading(self) -> None:
        """Receive nothing more."""
        self._loop.remove_reader(self._descriptor)

    def close(self) -> None:
        """Close the socket; a worker that is idle ends then."""
        if self.state is WorkerState.DEAD:
            return
        self.state = WorkerState.DEAD
        self.stop_start_timer()
        self.stop_reading()
        if self.has_backlog:
            self._loop.remove_writer(self._descriptor)
        with contextlib.suppress(
            OSError
        ):  # a forked process may hold it too: close() is not enough
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
