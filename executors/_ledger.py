"""The ledger: how tasks end, each once, and what all of them took."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import pickle
from typing import Any

from executors import _wire
from executors._errors import RemoteError, RemoteTraceback
from executors._task import Task

log = logging.getLogger("executors")


class Ledger:
    """Count tasks from `begin` to their one end; sums of times are in ns."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.pending = self.done = self.failed = 0
        self.queue_ns = self.run_ns = self.transport_ns = 0
        self._empty = loop.create_future()
        self._closing = False

    def finish(self, task: Task, value: Any) -> None:
        """End a task with its result."""
        self.done += 1
        self.pending -= 1
        task.gone = True
        try:
            task.future.set_result(value)
        except BaseException:  # noqa: BLE001
            _contain(task)
        if task.timer is not None:
            task.timer.cancel()
        if self._closing:
            self._check()

    def take(
        self, task: Task, decoder: _wire.Decoder, kind: int, payload: Any, blob: memoryview
    ) -> None:
        """End a task with what its worker sent."""
        if kind == _wire.FAILED:
            self.fail(task, raised(payload))
        elif task.future.done():
            decoder.discard(kind, payload)
            self.drop(task)
        else:
            try:
                value = decoder.decode(kind, payload, blob, task.options.lease)
            except BaseException as error:  # noqa: BLE001 - what loading a result raises
                self.fail(task, error)
            else:
                self.finish(task, value)

    def fail(self, task: Task, error: BaseException) -> None:
        """End a task with an exception."""
        if task.gone:
            return
        self.failed += 1
        if not task.future.done():
            if isinstance(error, StopIteration):  # no future of asyncio takes it
                cause, error = error, RuntimeError(f"the task raised {error!r}")
                error.__cause__ = cause
            try:
                task.future.set_exception(error)
            except BaseException:  # noqa: BLE001
                _contain(task)
        self.drop(task)

    def drop(self, task: Task) -> None:
        """End a task that nobody waits for."""
        if task.gone:
            return
        task.gone = True
        if task.timer is not None:
            task.timer.cancel()
        self.pending -= 1
        if self._closing:
            self._check()

    async def empty(self, seconds: float | None) -> None:
        """Wait until every task has ended, at most so long."""
        self._closing = True
        self._check()
        await asyncio.wait([self._empty], timeout=seconds)

    def _check(self) -> None:
        if not self.pending and not self._empty.done():
            self._empty.set_result(None)


def _contain(task: Task) -> None:
    """Log what a done callback raised, such as sys.exit(): it ends no loop of an executor's."""
    if not isinstance(task.future, concurrent.futures.Future):
        raise  # noqa: PLE0704 - Ctrl-C, on the application's own loop
    log.exception("a done callback raised")


def raised(payload: tuple[bytes, str]) -> BaseException:
    """Load the exception of a worker, with its traceback there as its cause."""
    data, trace = payload
    error: BaseException
    try:
        error = pickle.loads(data)  # noqa: S301 - from our own child
        error.__cause__ = RemoteTraceback(trace)
    except Exception as wrong:  # noqa: BLE001 - proven to load there, but modules may differ
        error = RemoteError(f"{wrong!r}, in loading an exception:\n{trace}")
    return error
