"""PipeExecutor: the same pool as a concurrent.futures executor, whose thread runs an event loop.

The loop's thread holds `loop_lock` except while it waits for events. If the lock is free and a
worker is idle, the caller's thread takes the lock and sends its call itself. Every other call is
handed over to the loop.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # signal's own functions take 10 times as long
import asyncio
import ctypes
import enum
import functools
import itertools
import os
import selectors
import signal
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from types import FrameType
from typing import Any, TypeVar

from pipepool.configuration import ExecutorOptions, PoolOptions, accept_fields
from pipepool.exceptions import BrokenWorker
from pipepool.scheduling.accounting import log
from pipepool.scheduling.scheduler import Scheduler
from pipepool.workers.protocol import Encoder
from pipepool.workers.worker import ContextVariables
from pipepool.workers.worker_connection import DEFAULTS, Options

T = TypeVar("T")
# future, function, args, kwargs, options, values of context variables
Call = tuple[
    Future[Any],
    Callable[..., Any],
    tuple[Any, ...],
    dict[str, Any],
    Options,
    list[tuple[int, Any]] | None,
]

_PICKLE = Encoder._pickle.__code__
# The C function that handles a signal, by its address; 0: SIG_DFL. An int is passed as a C int.
_get_handler: Any = ctypes.PYFUNCTYPE(ctypes.c_ssize_t)(("PyOS_getsig", ctypes.pythonapi))
_engines: weakref.WeakSet[_Engine] = weakref.WeakSet()
_interpreter_ends = False
_main_thread = threading.main_thread().ident


class PipeExecutor(Executor):
    """Replaces ProcessPoolExecutor; a worker that dies fails only the task that it ran.

    `mp_context` is accepted and ignored: workers are always forked by a fresh process of one
    thread, which imports the main module as multiprocessing's `forkserver` does. The parameters
    after it are those of PipePool. `metrics` is called in the executor's thread; if arguments
    cannot be pickled, it may be called in the caller's thread. With `max_queue` the future of a
    rejected call raises QueueFull, not `submit`.

    >>> with PipeExecutor(1) as executor:
    ...     executor.submit(divmod, 17, 5).result(), list(executor.map(abs, [-1, 2]))
    ((3, 2), [1, 2])
    """

    @accept_fields(ExecutorOptions)
    def __init__(self, options: ExecutorOptions) -> None:
        self._engine = _Engine(options.pool_options())
        self._variables = ContextVariables(options.context) if options.context else None
        _engines.add(self._engine)
        # The thread refers to the engine only, so a garbage-collected executor shuts down.
        weakref.finalize(self, self._engine.finish).atexit = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return self._submit(fn, args, kwargs, DEFAULTS)

    def submit_with(
        self,
        fn: Callable[..., T],
        /,
        *args: Any,
        kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        queue_timeout: float | None = None,
        idempotent: bool = False,
        zero_copy_result: bool = False,
        zero_copy_args: bool = False,
    ) -> Future[T]:
        """Submit a call with the options of `PipePool.run`, except `kill_on_cancel`."""
        options = Options(
            timeout, queue_timeout, idempotent, zero_copy_result, False, zero_copy_args
        )
        return self._submit(fn, args, dict(kwargs or ()), options)

    def _submit(
        self,
        function: Callable[..., T],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Options,
    ) -> Future[T]:
        if _interpreter_ends:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")
        values = None if self._variables is None else self._variables.values()
        return self._engine.submit((Future(), function, args, kwargs, options, values))

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if buffersize is not None and not isinstance(buffersize, int):
            raise TypeError("buffersize must be an integer or None")
        if buffersize is not None and buffersize < 1:
            raise ValueError("buffersize must be None or > 0")
        if chunksize == 1:
            return self._map(fn, iterables, timeout, buffersize)
        calls = zip(*iterables, strict=False)
        chunks = iter(lambda: tuple(itertools.islice(calls, chunksize)), ())
        chunked = (itertools.repeat(fn), chunks)
        return _flatten(self._map(_run_chunk, chunked, timeout, buffersize))

    def _map(
        self,
        fn: Callable[..., T],
        iterables: Iterable[Iterable[Any]],
        timeout: float | None,
        buffersize: int | None,
    ) -> Iterator[T]:
        if buffersize is None:
            return super().map(fn, *iterables, timeout=timeout)
        end = None if timeout is None else time.monotonic() + timeout
        calls = zip(*iterables, strict=False)
        futures = deque(self.submit(fn, *args) for args in itertools.islice(calls, buffersize))
        return self._buffered(fn, calls, futures, end)

    def _buffered(
        self,
        fn: Callable[..., T],
        calls: Iterator[tuple[Any, ...]],
        futures: deque[Future[T]],
        end: float | None,
    ) -> Iterator[T]:
        """Yield the results of futures, and submit another call for each of them."""
        try:
            while futures:
                left = None if end is None else end - time.monotonic()
                result = futures[0].result(left)
                futures.popleft()
                for args in itertools.islice(calls, 1):
                    futures.append(self.submit(fn, *args))
                yield result
                del result  # keep no reference while the consumer uses it
        finally:
            for future in futures:
                future.cancel()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._engine.finish(cancel_futures)
        if wait:
            try:
                self._engine.join()
            except KeyboardInterrupt:  # else only a third one would end the program
                self.kill_workers()
                raise

    def kill_workers(self) -> None:
        """Kill the workers and shut down at once.

        Tasks that were sent to a worker, and one task for each worker that is starting, raise
        BrokenWorker; all other waiting tasks are cancelled.
        """
        self._engine.finish(cancel=True, grace=0.0)

    terminate_workers = kill_workers  # SIGTERM would not end them: workers ignore it


class _Phase(enum.IntEnum):
    """How far an executor has shut down."""

    OPEN = 1
    FINISHING = 2  # it accepts no call
    CANCELLING = 3  # and cancels those that wait
    DRAINED = 4  # all calls have ended, and the workers end


class _Engine:
    """Runs a scheduler in a thread that starts with the first call and ends after `finish`."""

    def __init__(self, options: PoolOptions) -> None:
        self._options = options
        self._create_locks()
        self._calls: list[Call] = []  # handed over, and not submitted yet
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scheduler: Scheduler | None = None
        self._wakeup_is_scheduled = False
        self._phase = _Phase.OPEN
        self._grace: float | None = None  # s; None: until all calls have ended
        self._broken: str | None = None

    def _create_locks(self) -> None:
        self._lock = threading.RLock()  # reentrant: garbage collection may call `finish`
        self._loop_lock = threading.RLock()  # its holder may use the scheduler; reentrant as above

    def reset_after_fork(self) -> None:
        """In a forked child: stay usable if no call was made before the fork, else reject calls."""
        self._create_locks()
        if self._thread is not None:
            self._thread = self._loop = self._scheduler = None
            self._calls = []
            self._broken = "this executor belongs to the process that forked this one"

    def submit(self, call: Call) -> Future[Any]:
        """Submit a call; raise RuntimeError after `finish`, BrokenWorker without workers."""
        with _DeferredCtrlC() as ctrl_c:
            if not self._submit_at_once(call):
                self._hand_over(call)
        if ctrl_c.error is not None and _has_failed_with(call[0], ctrl_c.error):
            raise ctrl_c.error  # such as SystemExit: Python delivers a signal once
        return call[0]

    def _hand_over(self, call: Call) -> None:
        """Submit a call in the loop's thread."""
        with self._lock:
            broken = self._broken or (self._scheduler and self._scheduler.broken)
            if self._phase is not _Phase.OPEN:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if broken:
                raise BrokenWorker(broken)
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="PipeExecutor")
                try:
                    self._thread.start()
                except RuntimeError:  # the process cannot have more threads
                    self._thread = None
                    raise
            self._calls.append(call)
            self._wake()

    def _submit_at_once(self, call: Call) -> bool:
        """Send a call from this thread; return whether that was possible."""
        scheduler, loop_lock = self._scheduler, self._loop_lock
        if scheduler is None or loop_lock._is_owned():  # type: ignore[attr-defined] # nested call
            return False
        if call[4] is not DEFAULTS:  # only the loop's thread may start a timer
            return False
        if not loop_lock.acquire(blocking=False):
            return False
        try:
            if (
                self._calls
                or self._phase is not _Phase.OPEN
                or scheduler.broken
                or not scheduler.can_send_at_once
            ):
                return False
            _submit(scheduler, call, at_once=True)
            return True
        finally:
            loop_lock.release()

    def finish(self, cancel: bool = False, grace: float | None = None) -> None:
        """Reject new calls; the thread ends when all accepted calls have ended.

        `cancel` cancels the waiting calls; calls that remain after `grace` seconds fail.
        """
        with self._lock:
            self._phase = max(self._phase, _Phase.CANCELLING if cancel else _Phase.FINISHING)
            self._grace = grace if self._grace is None else self._grace
            self._wake()

    def join(self) -> None:
        """Wait for the end of the thread, unless it is the current one."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _wake(self) -> None:
        if self._loop is not None and not self._wakeup_is_scheduled:
            self._wakeup_is_scheduled = True
            self._loop.call_soon_threadsafe(self._take_calls)

    def _main(self) -> None:
        self._loop_lock.acquire()
        try:
            with asyncio.Runner(loop_factory=self._new_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - the futures report it
            self._break(f"no worker could be started: {error}")

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(_yielding_selector(self._loop_lock))

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._scheduler = Scheduler(loop, self._options, Future.set_running_or_notify_cancel)
        with self._lock:
            self._loop = loop
        try:
            self._take_calls()
            await self._end.wait()
            await self._drain()
        finally:
            with self._lock:
                self._phase = _Phase.DRAINED
            await self._scheduler.end(None if self._grace is None else loop.time() + self._grace)
            with self._lock:
                self._loop = None

    async def _drain(self) -> None:
        """Wait until all calls have ended or the grace, which may be set meanwhile, is over."""
        assert self._scheduler is not None
        drained = asyncio.ensure_future(self._scheduler.drain(None))
        while not drained.done() and self._grace is None:
            self._end.clear()
            ended = asyncio.ensure_future(self._end.wait())
            await asyncio.wait([drained, ended], return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
        if not drained.done():
            await asyncio.wait([drained], timeout=self._grace)
            drained.cancel()

    def _take_calls(self) -> None:
        with self._lock:
            calls, self._calls, self._wakeup_is_scheduled = self._calls, [], False
            phase = self._phase
        scheduler = self._scheduler
        assert scheduler is not None, "the loop runs with a scheduler"
        for call in calls:
            _submit(scheduler, call)
        if phase >= _Phase.CANCELLING:
            scheduler.cancel_queued()
        if phase is not _Phase.OPEN:
            self._end.set()
            if phase is _Phase.DRAINED and self._grace is not None:  # killed while the workers end
                scheduler.manager.stop_waiting()

    def _break(self, why: str) -> None:
        with self._lock:
            self._broken, self._loop = why, None
            calls, self._calls = self._calls, []
        for future, *_ in calls:
            _fail(future, BrokenWorker(why))


class _DeferredCtrlC:
    """In the main thread: delay the handling of Ctrl-C until the end of the block.

    While an argument's own code is pickling it, Ctrl-C is handled at once: that code may take long,
    and an exception in it fails only its own call.
    """

    _handler: Any = None
    _is_pending = False
    error: BaseException | None = None  # raised by the handler in an argument's own code

    def __enter__(self) -> _DeferredCtrlC:
        if threading.get_ident() == _main_thread:
            handler = _signal.getsignal(signal.SIGINT)
            if callable(handler) and _get_handler(signal.SIGINT) == _python_handler():
                try:
                    _signal.signal(signal.SIGINT, self._defer)
                    self._handler = handler
                except ValueError:  # a subinterpreter receives no signals
                    pass
        return self

    def _defer(self, number: int, frame: FrameType | None) -> None:
        if _is_code_of_argument(frame):
            try:
                self._handler(number, frame)
            except BaseException as error:
                self.error = error
                raise
        else:
            self._is_pending = True

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            _signal.signal(signal.SIGINT, self._handler)
            if self._is_pending:  # call it: a loop has received the signal already
                self._handler(signal.SIGINT, sys._getframe(1))


@functools.cache
def _python_handler() -> object:
    """Return the address of the C function that calls Python's handlers, the same for all signals.

    If C code, such as faulthandler, has replaced it, `signal.signal` could not restore that.
    """
    for number in (signal.SIGURG, signal.SIGWINCH, signal.SIGCONT):  # ignored by default
        if not _get_handler(number):  # SIG_DFL
            before = _signal.signal(number, lambda *_: None)
            try:
                return _get_handler(number)
            finally:
                _signal.signal(number, before)
    return _get_handler(signal.SIGINT)


def _is_code_of_argument(frame: FrameType | None) -> bool:
    """Whether a frame runs code of another module that was called to pickle an argument."""
    caller = frame
    while caller is not None and not _module_name(caller).startswith("pipepool."):
        caller = caller.f_back
    return caller is not None and caller is not frame and caller.f_code is _PICKLE


def _module_name(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")  # any object, such as None in code that exec runs
    return name if type(name) is str else ""


def _has_failed_with(future: Future[Any], error: BaseException) -> bool:
    """Whether a future has failed with an exception, or with another one that wraps it."""
    if not future.done() or future.cancelled():
        return False
    failure = future.exception()
    return failure is not None and (failure is error or failure.__cause__ is error)


def _yielding_selector(loop_lock: threading.RLock) -> selectors.BaseSelector:
    """Return a selector that releases a lock while it waits; otherwise the loop's thread holds it.

    Its class is the default one of this moment: after this module was imported, gevent may have
    replaced it, and threads by greenlets, which a selector that blocks the process never lets run.
    """

    class YieldingSelector(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            loop_lock.release()
            try:
                return super().select(timeout)
            finally:
                loop_lock.acquire()

    return YieldingSelector()


def _submit(scheduler: Scheduler, call: Call, at_once: bool = False) -> None:
    future, function, args, kwargs, options, values = call
    try:
        scheduler.submit(function, args, kwargs, future, options, values, at_once=at_once)
    except Exception as error:  # noqa: BLE001 - what pickling the function raises
        _fail(future, error)


def _fail(future: Future[Any], error: Exception) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_exception(error)
        except BaseException:  # noqa: BLE001 - such as sys.exit() in a done callback
            log.exception("a done callback raised")


def _run_chunk(function: Callable[..., T], calls: tuple[tuple[Any, ...], ...]) -> list[T]:
    return [function(*args) for args in calls]


def _flatten(chunks: Iterator[list[T]]) -> Iterator[T]:
    """Yield the results of chunks without keeping a reference to them."""
    for chunk in chunks:
        chunk.reverse()
        while chunk:
            yield chunk.pop()


def _finish_all() -> None:
    global _interpreter_ends
    _interpreter_ends = True
    for engine in list(_engines):
        engine.finish()
    for engine in list(_engines):
        engine.join()


def _reset_in_fork() -> None:
    global _main_thread
    _main_thread = threading.get_ident()
    for engine in list(_engines):
        engine.reset_after_fork()


os.register_at_fork(after_in_child=_reset_in_fork)

# Before the interpreter waits for threads, as the standard executors do; atexit would be too late.
threading._register_atexit(_finish_all)  # type: ignore[attr-defined]
