"""A link: the parent's end of one worker, with the tasks that the worker holds."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import enum
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from executors import _arena, _wire
from executors._inbox import Inbox
from executors._task import Task

T = TypeVar("T")


def detached(call: Callable[..., T], *args: Any) -> T:
    """Register a callback in an empty context, which keeps no request's variables alive."""
    return contextvars.Context().run(call, *args)


class State(enum.Enum):
    """Where a worker is in its life; only an ACTIVE one is given tasks."""

    STARTING = 1
    SPARE = 2
    ACTIVE = 3
    RETIRING = 4  # runs what it holds, then ends
    DEAD = 5


class Owner(Protocol):
    """Who is told what a link receives."""

    def answered(self, link: Link, entries: list[_wire.Entry], blob: memoryview) -> None: ...
    def lost(self, link: Link) -> None: ...


class Link:
    """One worker: `tasks` by sequence, `load` the sum of their estimates in ns."""

    def __init__(
        self, token: int, loop: asyncio.AbstractEventLoop, owner: Owner, left: float
    ) -> None:
        self.token = token
        self.left = left  # tasks until it has had its number
        self.pid: int | None = None
        self.told: Any = None  # what its initializer returned
        self.status: int | None = None
        self.state = State.STARTING
        self.tasks: dict[int, Task] = {}
        self.load = 0.0
        self.sequence = 0
        self.backlog = False  # bytes that the socket did not take yet
        self.failing: list[Task] = []  # what it ran when it died, until its status is known
        self._known = {0}
        self._loop = loop
        self._owner = owner
        self._unsent: deque[memoryview] = deque()
        self._socket, self.theirs = socket.socketpair()
        try:
            self.memory_descriptor, memory = _arena.create()
        except OSError:
            self._socket.close()
            self.theirs.close()
            raise
        self.words = memory.words
        self._outbox = _wire.Outbox(memory.arena(_arena.ASKED))
        self.decoder = _wire.Decoder(memory.arena(_arena.ANSWERS))
        self._inbox = Inbox(self._socket)
        self._socket.setblocking(False)
        self._descriptor = self._socket.fileno()
        detached(loop.add_reader, self._descriptor, self.read)

    def put(self, task: Task, cost: float, now: int) -> None:
        """Take a task, which the next `send` sends; raise what pickle raises."""
        kind, payload = self._outbox.encode_call(
            task.args, task.kwargs, task.more, task.options.lend
        )
        function, code = task.function, None
        if function.number not in self._known:
            self._known.add(function.number)
            code = function.code
        self.sequence = sequence = self.sequence + 1
        self._outbox.entries.append((sequence, function.number, code, kind, payload))
        self.tasks[sequence] = task
        task.link, task.sequence, task.cost, task.sent = self, sequence, cost, now
        self.load += cost
        self.left -= 1

    def set_up(self, setup: bytes) -> None:
        """Send what the worker begins with: initializer, arguments, names of variables."""
        self._outbox.entries.append((0, 0, None, *self._outbox.encode(setup)))
        self.send()

    def send(self) -> None:
        """Send what was put, as far as the socket takes it now; the rest goes when it can."""
        if not self._outbox.entries:
            return
        frame = self._outbox.frame()
        if not self.backlog and len(frame) == 1:
            head = frame[0]
            try:
                sent = self._socket.send(head)
            except BlockingIOError:
                sent = 0
            except OSError:  # it died: its end of file says so, and the tasks are taken from it
                return
            if sent == len(head):
                return
            frame = [memoryview(head)[sent:]]
        self._unsent.extend(map(_kept, frame))
        if not self.backlog:
            self.backlog = True
            detached(self._loop.add_writer, self._descriptor, self._write)
            self._write()

    def _write(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent[0])
                self._unsent[0] = self._unsent[0][sent:]
                if not self._unsent[0]:
                    self._unsent.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
        self.backlog = False
        self._loop.remove_writer(self._descriptor)

    def read(self) -> None:
        """Receive once and tell the owner."""
        try:
            frames = self._inbox.receive()
        except BlockingIOError:
            return
        if frames is None:
            self._owner.lost(self)
            return
        for entries, blob in frames:
            self._owner.answered(self, entries, blob)

    def read_all(self) -> None:
        """Receive what a worker that has ended still sent."""
        while self.state is not State.DEAD:
            try:
                frames = self._inbox.receive()
            except BlockingIOError:
                return
            if frames is None:
                return
            for entries, blob in frames:
                self._owner.answered(self, entries, blob)

    def running(self) -> tuple[Task, int] | None:
        """Say which task the worker runs, and since when in ns of the monotonic clock."""
        sequence = self.words[_arena.RUNNING]
        started = self.words[_arena.STARTED]
        if self.words[_arena.ENDED] == sequence:
            return None
        task = self.tasks.get(sequence)
        return None if task is None else (task, started)

    def has_begun(self, task: Task) -> bool:
        """Whether the worker began a task that it holds, and did not skip it."""
        words, sequence = self.words, task.sequence
        is_skipped = words[_arena.SKIPS] <= sequence <= words[_arena.SKIPPED]
        return sequence <= words[_arena.RUNNING] and not is_skipped

    def recall(self) -> None:
        """Tell the worker to begin nothing of what it was sent so far."""
        self.words[_arena.RECALLED] = self.sequence

    def close(self) -> None:
        """Let go of the worker, which ends when it has nothing to do."""
        if self.state is State.DEAD:
            return
        self.state = State.DEAD
        self._loop.remove_reader(self._descriptor)
        if self.backlog:
            self._loop.remove_writer(self._descriptor)
        with contextlib.suppress(OSError):  # a process that the application forked has it, too
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def handed_over(self) -> tuple[int, socket.socket, int]:
        """Give the worker's side away: token, socket and descriptor of the memory."""
        return self.token, self.theirs, self.memory_descriptor


def _kept(part: bytes | memoryview) -> memoryview:
    """Give bytes that stay as they are until the socket takes them."""
    view = memoryview(part)
    return view if type(view.obj) is bytes else memoryview(bytes(view))
