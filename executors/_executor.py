"""PipeExecutor: the same pool as a concurrent.futures executor, with a loop of its own."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from executors._engine import Engine
from executors._plan import plan

T = TypeVar("T")

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()
_ended = False


class PipeExecutor(Executor):
    """Stand in for ProcessPoolExecutor; a worker that dies fails only the task that it ran.

    `mp_context` is taken and not used: workers are always forked by a fresh process of one thread,
    which imports the main module as multiprocessing's `forkserver` does.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        mp_context: object = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        max_tasks_per_child: int | None = None,
    ) -> None:
        self._engine = Engine(plan(max_workers, initializer, initargs, max_tasks_per_child))
        _engines.add(self._engine)
        # The thread knows only the engine: an executor that nobody holds ends as after shutdown.
        weakref.finalize(self, self._engine.finish).atexit = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        if _ended:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")
        return self._engine.submit(fn, args, kwargs)

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        calls = zip(*iterables, strict=False)
        chunks = iter(lambda: tuple(itertools.islice(calls, chunksize)), ())
        return _each(super().map(_chunk, itertools.repeat(fn), chunks, timeout=timeout))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._engine.finish(cancel_futures)
        if wait:
            self._engine.join()


def _chunk(function: Callable[..., T], calls: tuple[tuple[Any, ...], ...]) -> list[T]:
    return [function(*args) for args in calls]


def _each(chunks: Iterator[list[T]]) -> Iterator[T]:
    """Give the results of chunks, and hold none that was given."""
    for chunk in chunks:
        chunk.reverse()
        while chunk:
            yield chunk.pop()


def _finish_all() -> None:
    global _ended
    _ended = True
    for engine in list(_engines):
        engine.finish()
    for engine in list(_engines):
        engine.join()


def _forget_parents() -> None:
    for engine in list(_engines):
        engine.was_forked()


os.register_at_fork(after_in_child=_forget_parents)

# Before the interpreter waits for threads, as the standard executors do; atexit would be too late.
threading._register_atexit(_finish_all)  # type: ignore[attr-defined]
