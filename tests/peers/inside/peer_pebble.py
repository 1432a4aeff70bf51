"""Run pebble's tests of its process pool on a pool of ours, which has a loop in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import functools
import itertools
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from peer_pool import BrokenWorker, Future, PipePool, forbid


class ProcessExpired(OSError):
    """Stand in for pebble's error of a worker that died."""

    def __init__(self, error: BrokenWorker) -> None:
        super().__init__(str(error))
        self.exitcode = error.exit_code if error.signal is None else -error.signal
        self.pid = getattr(error, "pid", None)


START_TIMEOUT = 30.0  # s for the workers to start
ENDED = 90.0  # s for all tasks of a test to end


class Status(enum.Enum):
    """What a pool does."""

    CREATED = enum.auto()
    RUNNING = enum.auto()
    CLOSED = enum.auto()
    STOPPED = enum.auto()


class ProcessPool:
    """Our pool behind the methods of pebble's; cancelling a task kills its worker, as there."""

    def __init__(
        self,
        max_workers: int | None = None,
        max_tasks: int = 0,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        context: object = None,
    ) -> None:
        self._settings = (max_workers, initializer, tuple(initargs))
        self._max_tasks = max_tasks or None
        self._status = Status.CREATED
        self._lock = threading.RLock()

    def __enter__(self) -> ProcessPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.join(ENDED)

    @property
    def active(self) -> bool:
        self._start()
        return self._status in (Status.RUNNING, Status.CLOSED) and not self._is_broken

    def schedule(
        self,
        function: Callable[..., Any],
        args: Iterable[Any] = (),
        kwargs: dict[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Future[Any]:
        self._start()
        with contextlib.suppress(Exception):  # _is_broken reports it
            self._started.result(START_TIMEOUT)
        if self._status is not Status.RUNNING or self._is_broken:
            raise RuntimeError("the pool takes no tasks")
        call = functools.partial(function, *args, **kwargs or {})
        return asyncio.run_coroutine_threadsafe(self._run(call, timeout), self._loop)

    def submit(
        self, function: Callable[..., Any], timeout: float | None, /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        return self.schedule(function, args, kwargs, timeout)

    def map(
        self,
        function: Callable[..., Any],
        *iterables: Iterable[Any],
        chunksize: int = 1,
        timeout: float | None = None,
    ) -> Results:
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1")
        calls = zip(*iterables, strict=False)
        chunks = iter(lambda: list(itertools.islice(calls, chunksize)), [])
        return Results(
            [self.schedule(_run_chunk, (function, each), timeout=timeout) for each in chunks]
        )

    def close(self) -> None:
        with self._lock:
            if self._status in (Status.CREATED, Status.RUNNING):
                self._status = Status.CLOSED if self._status is Status.RUNNING else Status.STOPPED

    def stop(self) -> None:
        with self._lock:
            if self._status in (Status.RUNNING, Status.CLOSED):
                self._closing = asyncio.run_coroutine_threadsafe(self._pool.close(0), self._loop)
            self._status = Status.STOPPED

    def join(self, timeout: float | None = None) -> None:
        if self._status in (Status.CREATED, Status.RUNNING):
            raise RuntimeError("the pool still runs")
        if not hasattr(self, "_thread"):
            return
        if self._status is Status.CLOSED:
            asyncio.run_coroutine_threadsafe(self._pool.close(), self._loop).result(timeout)
            self.stop()
        self._closing.result()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(ENDED)

    @property
    def _pool_manager(self) -> Any:
        """Stand in for what the tests read the pids of the workers from."""
        pids: list[int] = []
        if self._status is not Status.STOPPED:
            self._started.result()
            pids = self._pool._scheduler.manager.pids()
        return types.SimpleNamespace(worker_manager=types.SimpleNamespace(workers=pids))

    @property
    def _is_broken(self) -> bool:
        return self._started.done() and self._started.exception() is not None

    def _start(self) -> None:
        with self._lock:
            if self._status is not Status.CREATED:
                return
            is_ready = threading.Event()
            self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(is_ready)))
            self._thread.start()
            is_ready.wait(START_TIMEOUT)
            self._started = asyncio.run_coroutine_threadsafe(self._pool.start(), self._loop)
            self._status = Status.RUNNING

    async def _serve(self, is_ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._pool = PipePool(*self._settings, max_tasks_per_child=self._max_tasks)
        is_ready.set()
        await self._end.wait()

    async def _run(self, call: Callable[[], Any], timeout: float | None) -> Any:
        try:
            return await self._pool.run(call, timeout=timeout, kill_on_cancel=True)
        except BrokenWorker as error:
            raise ProcessExpired(error) from error


class Results:
    """Stand in for the future of a map, whose result iterates over results and errors."""

    def __init__(self, futures: list[Future[Any]]) -> None:
        self._futures = futures

    def result(self) -> Results:
        self._items = self._each()
        return self

    def cancel(self) -> bool:
        cancelled = [future.cancel() for future in self._futures]  # each of them
        return any(cancelled)

    def __iter__(self) -> Results:
        return self

    def __next__(self) -> Any:
        error, value = next(self._items)
        if error is not None:
            raise error
        return value

    def _each(self) -> Iterator[tuple[BaseException | None, Any]]:
        for future in self._futures:
            yield from _outcomes(future)


def _outcomes(future: Future[Any]) -> list[tuple[BaseException | None, Any]]:
    """List what the calls of a chunk returned or raised.

    No generator may be in the traceback of an error: unittest clears the frames of what it expects.
    """
    try:
        outcomes: list[tuple[BaseException | None, Any]] = future.result()
    except BaseException as error:  # noqa: BLE001 - an outcome like others
        return [(error, None)]
    return outcomes


def _run_chunk(
    function: Callable[..., Any], calls: list[tuple[Any, ...]]
) -> list[tuple[BaseException | None, Any]]:
    outcomes: list[tuple[BaseException | None, Any]] = []
    for args in calls:
        try:
            outcomes.append((None, function(*args)))
        except Exception as error:  # noqa: BLE001 - an outcome like others
            outcomes.append((error, None))
    return outcomes


def install() -> None:
    """Replace pebble's process pool and the error of a worker that died."""
    import pebble

    forbid(pebble.ProcessPool)
    pebble.ProcessPool = ProcessPool
    pebble.ProcessExpired = ProcessExpired
