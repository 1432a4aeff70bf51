"""The Tornado application: it responds to each request with the result of a strategy's `run`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from inspect import iscoroutinefunction

from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from offload import tasks
from offload.serving.applications import responses
from offload.serving.lifecycle import drain, ports, readiness
from offload.serving.lifecycle.stop_signal import stop
from offload.serving.metrics import loop_lag, probe
from offload.serving.metrics.task_clock import TimedResult
from offload.serving.pools.recovery import PoolUnavailable

LIMITS = {"idle_connection_timeout": 10.0, "body_timeout": 10.0, "max_body_size": 1 << 20}

Run = Callable[[], Awaitable[TimedResult]]  # runs the task once, by the server's strategy


def serve(
    run: Run, port: int, backlog: int, pool: AbstractAsyncContextManager[object] | None = None
) -> None:
    """Respond with `run()` until a stop signal; `pool` is entered on the event loop."""
    asyncio.run(_serve(run, port, backlog, pool))


def serve_on_loop(task: str, run: Run, port: int, backlog: int) -> None:
    """Serve like `serve`, for a `run` that blocks the event loop until the task awaits."""
    # A `def` blocks the loop until it returns; an `async def` may or may not await.
    probe.facts["serial"] = not iscoroutinefunction(tasks.resolve(task))
    serve(run, port, backlog)


def listen(port: int, backlog: int) -> socket.socket:
    """Listen on a port of 127.0.0.1; raise MachineError."""
    with ports.binding(port):
        return bind_sockets(port, "127.0.0.1", backlog=backlog)[0]


def serve_socket(
    run: Run, listening: socket.socket, backlog: int, ready: Callable[[], None]
) -> None:
    """Respond to a listening socket's requests with `run()`; call `ready` once it accepts."""
    asyncio.run(_accept(run, listening, backlog, ready))


class _Handler(RequestHandler):
    def initialize(self, run: Run, requests: drain.Requests) -> None:
        self.run = run
        self.requests = requests

    async def get(self) -> None:
        loop_lag.note_request()
        with self.requests.at_work:
            answer = (
                self._refusal()
                or responses.for_path(self.request.uri or "")
                or await self._answer()
            )
            sent = self._send(answer)
        with self.requests.being_sent, suppress(StreamClosedError):  # the client has left
            await sent

    head = get  # Tornado leaves the body out

    def write_error(self, status_code: int, **more: object) -> None:
        """Respond to other methods, which Tornado refuses without calling `get`."""
        if (refused := self._refusal()) is None:
            super().write_error(status_code, **more)
        else:
            self._send(refused)

    def _refusal(self) -> responses.Answer | None:
        return responses.refusal(self.request.method, self.request.headers.get("Host"))

    def _send(self, answer: responses.Answer) -> asyncio.Future[None]:
        self.set_status(answer.status)
        self.set_header("Content-Type", answer.content_type)
        if answer.allow is not None:
            self.set_header("Allow", answer.allow)
        if stop.at is not None:
            self.set_header("Connection", "close")
        return self.finish(answer.body)

    async def _answer(self) -> responses.Answer:
        try:
            return responses.from_task(await self.run())
        except PoolUnavailable as error:
            return responses.from_error(error, 503)
        except BrokenProcessPool as error:
            return responses.from_error(error)

    def compute_etag(self) -> None:
        """Compute no ETag: hashing each body would be overhead in every request."""


async def _serve(
    run: Run, port: int, backlog: int, pool: AbstractAsyncContextManager[object] | None
) -> None:
    async with pool or nullcontext():
        listening = listen(port, backlog)
        port = listening.getsockname()[1]
        await _accept(run, listening, backlog, lambda: readiness.announce(port))


async def _accept(
    run: Run, listening: socket.socket, backlog: int, ready: Callable[[], None]
) -> None:
    requests = drain.Requests()
    handlers = [(".*", _Handler, {"run": run, "requests": requests})]
    application = Application(handlers, log_function=lambda _: None)
    server = HTTPServer(application, **LIMITS)
    server.add_sockets([listening])
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    stop.set_callback(lambda: loop.call_soon_threadsafe(stopped.set))
    ready()
    loop_lag.watch(loop)
    await stopped.wait()
    await drain.accept_waiting(listening, backlog)
    server.stop()
    await requests.finish()
    await server.close_all_connections()
