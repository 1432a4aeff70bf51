"""PipePool: run blocking functions in worker processes, from an event loop and on it alone."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from executors import _stats
from executors._dispatch import Dispatch
from executors._errors import BrokenWorker, QueueFull, RemoteError, TaskExit
from executors._executor import PipeExecutor
from executors._plan import plan
from executors._stats import Stats
from executors._task import PLAIN, Options

__all__ = [
    "BrokenWorker",
    "PipeExecutor",
    "PipePool",
    "QueueFull",
    "RemoteError",
    "Stats",
    "TaskExit",
]

T = TypeVar("T")


class PipePool:
    """Worker processes of one event loop: `async with PipePool(2) as pool: await pool.run(f, x)`.

    `preload` names modules that are imported once, before the workers are forked. `max_queue` is
    how many tasks may wait. `context` names context variables, "module:name", that go with a task.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        preload: Sequence[str] = (),
        max_tasks_per_child: int | None = None,
        max_queue: int | None = None,
        context: Sequence[str] = (),
    ) -> None:
        self._plan = plan(
            max_workers, initializer, initargs, max_tasks_per_child, tuple(preload), tuple(context)
        )
        self._variables = [_variable(where) for where in context]
        if max_queue is not None and max_queue < 0:
            raise ValueError("max_queue must be at least 0, or None for any number")
        self._max_queue = max_queue
        self._dispatch: Dispatch | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    async def __aenter__(self) -> PipePool:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close(None if error is None else 0)

    async def start(self) -> None:
        """Begin the workers on the running loop, and wait until they can take tasks.

        Raises BrokenWorker when none can: an import or the initializer failed.
        """
        if self._dispatch is None:
            if self._closed:
                raise RuntimeError("cannot start a pool that was closed")
            self._loop = asyncio.get_running_loop()
            self._dispatch = Dispatch(self._loop, self._plan, self._max_queue)
        dispatch = self._dispatch
        self._check_loop()
        try:
            await asyncio.shield(dispatch.staff.started)
        except asyncio.CancelledError:
            await self.close(0)
            raise
        if (why := dispatch.broken) is not None:
            await self.close(0)
            raise BrokenWorker(why) from dispatch.staff.cause

    async def run(
        self,
        function: Callable[..., T],
        /,
        *args: object,
        timeout: float | None = None,
        queue_timeout: float | None = None,
        idempotent: bool = False,
        lease: bool = False,
        lend: bool = False,
        kill_on_cancel: bool = False,
    ) -> T:
        """Run `function(*args)` in a worker and return its result or raise its exception.

        `timeout` in seconds counts from the task's start, and kills; `queue_timeout` is how long it
        may wait for a worker; both raise TimeoutError. An `idempotent` task is tried once more when
        its worker dies, all others raise BrokenWorker. With `lease` large buffers of the result are
        read-only views of shared memory, freed when released or collected (bytes: a memoryview);
        with `lend` those of the arguments are, for as long as the worker keeps them.
        Raises QueueFull at once when `max_queue` tasks wait, TypeError for a time that is none.
        """
        dispatch, loop = self._dispatch, self._loop
        if dispatch is None or loop is None or self._closed:
            raise RuntimeError("a pool runs tasks between start() and close()")
        self._check_loop()
        options = PLAIN
        if (
            timeout is not None
            or queue_timeout is not None
            or idempotent
            or lease
            or lend
            or kill_on_cancel
        ):
            options = Options(timeout, queue_timeout, idempotent, lease, kill_on_cancel, lend)
        values = self._values() if self._variables else None
        future: asyncio.Future[T] = loop.create_future()
        task = dispatch.submit(function, args, {}, future, options, values)
        try:
            return await future
        except asyncio.CancelledError:
            dispatch.cancel(task)
            raise

    def _check_loop(self) -> None:
        if asyncio._get_running_loop() is not self._loop:  # None in a fork, too
            if self._dispatch is not None and self._dispatch.broken is not None:
                raise BrokenWorker(self._dispatch.broken)
            raise RuntimeError("this pool belongs to the loop that it was begun on: make another")

    def _values(self) -> list[tuple[int, Any]]:
        context = contextvars.copy_context()
        return [(i, context[v]) for i, v in enumerate(self._variables) if v in context]

    def stats(self) -> Stats:
        """Count what the pool has done so far, and its workers."""
        if self._dispatch is None:
            raise RuntimeError("a pool has figures once it was started")
        return _stats.of(self._dispatch)

    def told(self) -> list[Any]:
        """List what the initializer returned, for each worker that lives; None without one."""
        links = [] if self._dispatch is None else self._dispatch.staff.links.values()
        return [link.told for link in links if link.pid is not None]

    async def close(self, grace: float | None = None) -> None:
        """Take no more tasks, give those there are `grace` seconds (None: all they need), end.

        What is not done by then raises BrokenWorker where it is awaited. When this is cancelled
        the workers are killed: nothing is left of the pool in either case.
        """
        dispatch = self._dispatch
        if dispatch is not None:
            self._check_loop()
        self._closed = True
        if dispatch is None:
            return
        try:
            await dispatch.drain(grace)
        finally:
            cancelled = None
            ending = asyncio.ensure_future(dispatch.end())
            while not ending.done():  # which is bounded, whoever cancels this, or all tasks
                try:
                    await asyncio.shield(ending)
                except asyncio.CancelledError as error:
                    cancelled = error
                    if ending.cancelled():
                        ending = asyncio.ensure_future(dispatch.end())
            if cancelled is not None:
                raise cancelled


def _variable(where: str) -> contextvars.ContextVar[Any]:
    module, _, name = where.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, contextvars.ContextVar):
        raise ValueError(f"context={where!r} is not the 'module:name' of a context variable")
    return found
