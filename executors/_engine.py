"""The engine of an executor: a thread with an event loop, to which other threads hand calls.

The loop has its turn except while it waits for events. A call that comes then, and finds a worker
with nothing to do, is sent by the caller's own thread in its turn; others are handed over.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from executors._dispatch import Dispatch
from executors._errors import BrokenWorker
from executors._plan import Plan
from executors._task import PLAIN
from executors._yielding import Yielding

Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Engine:
    """Run a dispatch in a thread that begins with the first call and ends after `finish`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._make_locks()
        self._calls: list[Call] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._dispatch: Dispatch | None = None
        self._woken = self._finishing = self._cancelling = False
        self._broken: str | None = None

    def _make_locks(self) -> None:
        self._lock = threading.RLock()  # the collector may finish an executor while it is held
        self._turn = threading.RLock()  # who may touch the dispatch

    def was_forked(self) -> None:
        """Begin anew in a child if nothing was submitted before it was forked; else refuse."""
        self._make_locks()
        if self._thread is not None:
            self._thread = self._loop = self._dispatch = None
            self._calls = []
            self._broken = "this executor belongs to the process that forked this one: make another"

    def submit(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Future[Any]:
        """Hand a call over; raise RuntimeError after `finish`, BrokenWorker without workers."""
        future: Future[Any] = Future()
        call = future, function, args, kwargs
        if self._submit_at_once(call):
            return future
        with self._lock:
            broken = self._broken or (self._dispatch and self._dispatch.broken)
            if self._finishing:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if broken:
                raise BrokenWorker(broken)
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="PipeExecutor")
                try:
                    self._thread.start()
                except RuntimeError:  # no more threads can be had
                    self._thread = None
                    raise
            self._calls.append(call)
            self._wake()
            return future

    def _submit_at_once(self, call: Call) -> bool:
        """Say whether a worker has the call already, or it failed already."""
        dispatch, turn = self._dispatch, self._turn
        if dispatch is None or turn._is_owned():  # type: ignore[attr-defined] # a call in a call
            return False
        try:  # around acquire, too: Ctrl-C may come as soon as the turn is taken
            if not turn.acquire(blocking=False):
                return False
            if self._calls or self._finishing or dispatch.broken or not dispatch.is_at_rest:
                return False
            _submit(dispatch, call, at_once=True)
            return True
        finally:
            if turn._is_owned():  # type: ignore[attr-defined]
                turn.release()

    def finish(self, cancel: bool = False) -> None:
        """Take no more calls; the thread ends when those there are have ended or are cancelled."""
        with self._lock:
            self._finishing = True
            self._cancelling = self._cancelling or cancel
            self._wake()

    def join(self) -> None:
        """Wait for the end of the thread, unless it is this one."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _wake(self) -> None:
        if self._loop is not None and not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._take)

    def _main(self) -> None:
        self._turn.acquire()
        try:
            with asyncio.Runner(loop_factory=self._new_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - whoever waits for a result must hear of it
            self._break(f"no worker could be started: {error}")

    def _new_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.SelectorEventLoop(Yielding(self._turn))

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._dispatch = Dispatch(loop, self._plan, None, Future.set_running_or_notify_cancel)
        with self._lock:
            self._loop = loop
        self._take()
        await self._end.wait()
        try:
            await self._dispatch.drain(None)
            await self._dispatch.end()
        finally:
            with self._lock:
                self._loop = None

    def _take(self) -> None:
        with self._lock:
            calls, self._calls, self._woken = self._calls, [], False
            finishing, cancelling = self._finishing, self._cancelling
        dispatch = self._dispatch
        assert dispatch is not None, "the loop runs with a dispatch"
        for call in calls:
            _submit(dispatch, call)
        if cancelling:
            dispatch.cancel_queued()
        if finishing:
            self._end.set()

    def _break(self, why: str) -> None:
        with self._lock:
            self._broken, self._loop = why, None
            calls, self._calls = self._calls, []
        for future, *_ in calls:
            _fail(future, BrokenWorker(why))


def _submit(dispatch: Dispatch, call: Call, at_once: bool = False) -> None:
    future, function, args, kwargs = call
    try:
        dispatch.submit(function, args, kwargs, future, PLAIN, at_once=at_once)
    except Exception as error:  # noqa: BLE001 - what pickling the function raises
        _fail(future, error)


def _fail(future: Future[Any], error: Exception) -> None:
    if future.set_running_or_notify_cancel():
        future.set_exception(error)
