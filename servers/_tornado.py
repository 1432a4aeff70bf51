"""The Tornado application of servers 2 to 4: they differ in one value only, the executor."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from concurrent.futures.process import BrokenProcessPool

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

import tasks
from servers import _answer, _port, _ready
from servers._stop import stop

QUIET = 0.05  # s without a new request before idle connections are closed; a guess
LIMITS = {"idle_connection_timeout": 10.0, "body_timeout": 10.0, "max_body_size": 1 << 20}


def serve(task: str, port: int, backlog: int, executor: Executor | None) -> None:
    """Serve `task` in `executor`, or on the loop itself when it is None, until a stop signal."""
    if executor is None:
        tasks.resolve(task)
    asyncio.run(_serve(_Work(task, executor), port, backlog))


class _Work:
    """The task, where it runs, and how many requests wait for it now."""

    def __init__(self, task: str, executor: Executor | None) -> None:
        self.task = task
        self.executor = executor
        self.requests = 0
        self.begun = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()

    async def answer(self) -> _answer.Answer:
        """Run the task once."""
        try:
            if self.executor is None:
                return _answer.completed(await tasks.acall(self.task))
            loop = asyncio.get_running_loop()
            return _answer.completed(
                await loop.run_in_executor(self.executor, tasks.call, self.task)
            )
        except (tasks.TaskFailed, BrokenProcessPool) as error:
            return _answer.failed(error)

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
            answer = _answer.other(self.request.path) or await self.work.answer()
            self.set_status(answer.status)
            self.set_header("Content-Type", answer.content_type)
            if stop.at is not None:
                self.set_header("Connection", "close")
            await self.finish(answer.body)

    def compute_etag(self) -> None:
        """Hash no bodies: that would be work of the server's own in every request."""


async def _serve(work: _Work, port: int, backlog: int) -> None:
    application = Application([(".*", _Handler, {"work": work})], log_function=lambda _: None)
    server = HTTPServer(application, **LIMITS)
    with _port.binding(port):
        sockets = bind_sockets(port, "127.0.0.1", backlog=backlog)
    server.add_sockets(sockets)
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    stop.then(lambda: loop.call_soon_threadsafe(stopped.set))
    _ready.announce(sockets[0].getsockname()[1])
    await stopped.wait()
    await _drain(server, work)


async def _drain(server: HTTPServer, work: _Work) -> None:
    """Accept what waits in the listen queue, stop listening, and finish what was accepted."""
    for _ in range(2):  # the second turn of the loop has polled the listening socket
        await asyncio.sleep(0)
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
