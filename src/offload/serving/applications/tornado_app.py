"""The Tornado application of servers that differ in one value only, the executor."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import Any, Protocol

from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from offload import tasks
from offload.serving.applications import responses
from offload.serving.lifecycle import drain, ports, readiness
from offload.serving.lifecycle.stop_signal import stop
from offload.serving.metrics import loop_lag, probe, task_clock

QUIET = 0.05  # s without a new request before idle connections are closed; a guess
LIMITS = {"idle_connection_timeout": 10.0, "body_timeout": 10.0, "max_body_size": 1 << 20}


class Pool(Protocol):
    """An executor that is of the event loop, and begun and ended on it."""

    async def __aenter__(self) -> object: ...
    async def __aexit__(self, *error: Any) -> None: ...
    async def run(
        self, function: Callable[[str], task_clock.Timed], /, *args: str, idempotent: bool
    ) -> task_clock.Timed: ...


def serve(task: str, port: int, backlog: int, executor: Executor | Pool | None) -> None:
    """Serve `task` in `executor`, or on the loop itself when it is None, until a stop signal."""
    if executor is None:
        # A `def` has the loop to itself: none overtakes it. An `async def` that blocks does, too,
        # but only running it tells: of it the bench waits for answers that it does not count.
        probe.facts["in_turn"] = not iscoroutinefunction(tasks.resolve(task))
    asyncio.run(_start(_Work(task, executor), port, backlog))


def listen(port: int, backlog: int) -> socket.socket:
    """Listen on a port of this machine alone; raise MachineError."""
    with ports.binding(port):
        return bind_sockets(port, "127.0.0.1", backlog=backlog)[0]


def serve_on(task: str, listening: socket.socket, backlog: int, ready: Callable[[], None]) -> None:
    """Serve `task` on the loop of this process alone, and call `ready` once it accepts."""
    asyncio.run(_accept(_Work(task, None), listening, backlog, ready))


class _Work:
    """The task, where it runs, and how many requests wait for it now."""

    def __init__(self, task: str, executor: Executor | Pool | None) -> None:
        self.task = task
        self.executor = executor
        self.requests = 0
        self.begun = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    async def answer(self) -> responses.Answer:
        """Run the task once."""
        try:
            if self.executor is None:
                return responses.of(await task_clock.acall(self.task))
            if not isinstance(self.executor, Executor):
                timed = await self.executor.run(task_clock.call, self.task, idempotent=True)
                return responses.of(timed)
            loop = asyncio.get_running_loop()
            return responses.of(
                await loop.run_in_executor(self.executor, task_clock.call, self.task)
            )
        except BrokenProcessPool as error:
            return responses.failed(error)

    def __enter__(self) -> None:
        self.requests += 1
        self.begun.set()
        self.idle.clear()

    def __exit__(self, *_: object) -> None:
        self.requests -= 1
        if self.requests == 0:
            self.idle.set()


class _Handler(RequestHandler):
    def initialize(self, work: _Work) -> None:
        self.work = work

    async def get(self) -> None:
        with self.work:
            answer = responses.other(self.request.uri or "") or await self.work.answer()
            self.set_status(answer.status)
            self.set_header("Content-Type", answer.content_type)
            if stop.at is not None:
                self.set_header("Connection", "close")
            with suppress(StreamClosedError):  # the client left before its answer: its own count
                await self.finish(answer.body)

    def compute_etag(self) -> None:
        """Hash no bodies: that would be work of the server's own in every request."""


async def _start(work: _Work, port: int, backlog: int) -> None:
    if work.executor is None or isinstance(work.executor, Executor):
        await _serve(work, port, backlog)
    else:
        async with work.executor:
            await _serve(work, port, backlog)


async def _serve(work: _Work, port: int, backlog: int) -> None:
    listening = listen(port, backlog)
    await _accept(work, listening, backlog, lambda: readiness.announce(listening.getsockname()[1]))


async def _accept(
    work: _Work, listening: socket.socket, backlog: int, ready: Callable[[], None]
) -> None:
    application = Application([(".*", _Handler, {"work": work})], log_function=lambda _: None)
    server = HTTPServer(application, **LIMITS)
    server.add_sockets([listening])
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    stop.then(lambda: loop.call_soon_threadsafe(stopped.set))
    ready()
    loop_lag.watch(loop)
    await stopped.wait()
    await drain.accept_waiting(listening, backlog)
    server.stop()
    await _quiet(work)
    await server.close_all_connections()


async def _quiet(work: _Work) -> None:
    """Wait until no request is worked on and none has begun for QUIET seconds."""
    while True:
        await work.idle.wait()
        work.begun.clear()
        try:
            await asyncio.wait_for(work.begun.wait(), QUIET)
        except TimeoutError:
            if work.requests == 0:
                return
