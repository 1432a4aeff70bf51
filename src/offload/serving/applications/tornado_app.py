"""The Tornado application: it responds to each request with the result of a strategy's `run`."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPInputError, HTTPMessageDelegate, HTTPServerRequest
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, Finish

from offload import tasks
from offload.errors import UsageError
from offload.registry.catalog import is_application
from offload.serving import health
from offload.serving.applications import request_target, responses
from offload.serving.lifecycle import drain, log, readiness
from offload.serving.lifecycle.drain import ListeningSocket
from offload.serving.lifecycle.stop_signal import exit_now, stop
from offload.serving.metrics import loop_lag, own_gil, probe
from offload.serving.metrics.task_clock import TimedResult
from offload.serving.pools import pool_workers
from offload.serving.pools.recovery import PoolUnavailable
from offload.serving.protection import guards, limits
from offload.serving.protection.admission import Client
from offload.serving.protection.connections import BoundedServer, LimitedHandler, Server
from offload.serving.protection.guards import Abandoned, Guard, Protection

LIMITS = {
    "idle_connection_timeout": limits.REQUEST,
    "body_timeout": limits.REQUEST,
    "max_body_size": limits.BODY,
}

_SEPARATOR = re.compile(r"[ \t]*,[ \t]*")
_LENGTH = re.compile(r"[0-9]{1,19}")

POLL = 0.01  # s
RESTORE_INTERVAL = 1.0  # s between two restorations of the signal handlers
Run = Callable[[], Awaitable[TimedResult]]  # runs the task once, by the server's strategy


def serve(
    run: Run,
    port: int,
    backlog: int,
    pool: AbstractAsyncContextManager[object] | None = None,
    protection: Protection = guards.NONE,
) -> None:
    """Respond with `run()` until a stop signal; `pool` is entered on the event loop."""
    _run(_serve(run, port, backlog, pool, protection))


def serve_on_loop(
    task: str, run: Run, port: int, backlog: int, protection: Protection = guards.NONE
) -> None:
    """Serve like `serve`, for a `run` that blocks the event loop until the task awaits.

    A user's application is served instead of `run`.
    """
    if is_application(task):
        _run(_serve_application(task, port, backlog))
        return
    pool_workers.import_in_time(task)
    # A `def` blocks the loop until it returns; an `async def` may or may not await.
    probe.facts["serial"] = not tasks.is_coroutine(task)
    serve(run, port, backlog, protection=protection)


def listen(port: int, backlog: int, reuse_port: bool = False) -> ListeningSocket:
    """Listen on a port of the server's address; raise MachineError.

    With `reuse_port` several sockets can listen on the port.
    """
    with readiness.binding(port):
        bound = bind_sockets(port, readiness.address(), backlog=backlog, reuse_port=reuse_port)[0]
    listening = ListeningSocket(fileno=bound.detach())
    listening.setblocking(False)
    return listening


def serve_socket(
    run: Run,
    listening: ListeningSocket,
    backlog: int,
    ready: Callable[[], None],
    protection: Protection = guards.NONE,
) -> None:
    """Respond to the requests of a socket that several processes share; `ready` is called first."""
    _run(_accept(run, listening, backlog, ready, protection, is_shared=True))


def serve_application(
    work: str, listening: ListeningSocket, backlog: int, ready: Callable[[], None]
) -> None:
    """Serve a user's application on a socket that several processes share."""
    _run(_accept_for(work, listening, backlog, ready, is_shared=True))


def _run(serving: Coroutine[Any, Any, None]) -> None:
    """Run a server on a new event loop, also after a SystemExit or KeyboardInterrupt in a task.

    If a user's coroutine creates a task of asyncio that exits, asyncio raises the exception where
    the task is awaited, and then also out of the loop. The loop can continue.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        _restore_signals(loop)
        server = loop.create_task(serving)
        while not server.done():
            with suppress(SystemExit, KeyboardInterrupt):
                loop.run_until_complete(server)
        server.result()


def _restore_signals(loop: asyncio.AbstractEventLoop) -> None:
    """Restore the stop signals' handlers repeatedly: a task on the loop may have replaced them."""
    stop.restore()
    loop.call_later(RESTORE_INTERVAL, _restore_signals, loop)


class _Application(Application):
    """Follows RFC 9112 where Tornado does not: in targets, and in the ends of connections."""

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Accept a URL as target (3.2.2), and refuse chunks in HTTP/1.0 (6.1).

        Find "close" in a list of options (9.6). Refuse a repeated length (6.3), which Tornado
        accepts if it is equal each time, and one that is not a number.
        """
        path, host = request_target.split(request.uri or "")
        if host is not None:
            request.uri, request.path = path, path.partition("?")[0]
            request.headers["Host"] = host
        if request.version == "HTTP/1.0" and "Transfer-Encoding" in request.headers:
            raise HTTPInputError("Transfer-Encoding in HTTP/1.0")
        lengths = request.headers.get_list("Content-Length")
        if lengths and (len(lengths) > 1 or _LENGTH.fullmatch(lengths[0]) is None):
            raise HTTPInputError("Bad Content-Length")
        options = request.headers.get("Connection")
        if options is not None and "," in options and "close" in _SEPARATOR.split(options.lower()):
            _close_after_response(request)
        delegate = super().find_handler(request, **kwargs)
        has_body = "Content-Length" in request.headers or "Transfer-Encoding" in request.headers
        return _WithoutBody(delegate) if has_body else delegate


class _WithoutBody(HTTPMessageDelegate):
    """Passes on a request without its body: no task reads it, and the request may wait."""

    def __init__(self, delegate: Any) -> None:
        self._delegate = delegate

    def headers_received(self, start_line: Any, headers: Any) -> Awaitable[None] | None:
        headers.pop("Content-Type", None)  # else Tornado parses the body
        received: Awaitable[None] | None = self._delegate.headers_received(start_line, headers)
        return received

    def data_received(self, chunk: bytes) -> None:
        """Forget a part of the body."""

    def finish(self) -> None:
        self._delegate.finish()

    def on_connection_close(self) -> None:
        self._delegate.on_connection_close()


def _close_after_response(request: HTTPServerRequest) -> None:
    """Close the connection of a request after its response: nothing else on it is served."""
    connection: Any = request.connection
    connection._disconnect_on_finish = True  # there is no public name
    request.headers["Connection"] = "close"  # else Tornado confirms the keep-alive of HTTP/1.0


class _Handler(LimitedHandler):
    def initialize(self, run: Run, requests: drain.Requests) -> None:
        self.run = run
        self.requests = requests

    async def get(self) -> None:
        loop_lag.note_request()
        with self.requests.at_work:
            answer = (
                self._refusal()
                or responses.answer_uri(self.request.uri or "")
                or await self._answer()
            )
            sent = self._send(answer)
        if not sent.done():
            await self._wait_for_client(sent)

    head = get  # Tornado leaves the body out

    def write_error(self, status_code: int, **more: object) -> None:
        """Respond to other methods, which Tornado refuses without calling `get`."""
        if (refused := self._refusal()) is None:
            super().write_error(status_code, **more)
        else:
            self._send(refused)

    async def _wait_for_client(self, sent: asyncio.Future[None]) -> None:
        """Wait until a client has received its response, or is disconnected."""
        with self.requests.being_sent, suppress(StreamClosedError):
            await sent

    def _refusal(self) -> responses.Answer | None:
        headers = self.request.headers
        if sum(1 for _ in headers.get_all()) > limits.HEADERS:
            return responses.too_many_headers()
        return responses.refusal(self.request.method, self.request.headers.get("Host"))

    def _send(self, answer: responses.Answer) -> asyncio.Future[None]:
        self.set_status(answer.status)
        self.set_header("Content-Type", answer.content_type)
        for name, value in answer.more_headers():
            self.set_header(name.title(), value)
        if stop.at is not None:
            _close_after_response(self.request)
            self.set_header("Connection", "close")
        return self.finish(answer.body)

    async def _answer(self) -> responses.Answer:
        try:
            return await self._run_task()
        except PoolUnavailable as error:
            return responses.from_error(error, 503, retry_after=1)  # the next request tries again
        except BrokenProcessPool as error:
            return responses.from_error(error)
        except Abandoned:  # the guard has responded, and the end of the request was counted then
            self.requests.at_work.enter()
            raise Finish from None

    async def _run_task(self) -> responses.Answer:
        return responses.from_task(await self.run())

    def compute_etag(self) -> None:
        """Compute no ETag: hashing each body would be overhead in every request."""


class _ProtectedHandler(Client, _Handler):
    """The handler with protect=yes: the guard decides whether, when and how long the task runs."""

    def initialize(  # type: ignore[override]
        self, run: Run, requests: drain.Requests, guard: Guard
    ) -> None:
        self.run, self.requests, self.guard = run, requests, guard

    def _run_task(self) -> Coroutine[Any, Any, responses.Answer]:
        connection: Any = self.request.connection
        if connection.stream.closed():
            self.is_gone = True
        return self.guard.answer(self.run, self)

    @property
    def connection(self) -> socket.socket:
        connection: Any = self.request.connection
        found: socket.socket = connection.stream.socket
        return found

    def respond(self, answer: responses.Answer) -> None:
        self.requests.at_work.leave()  # the drain does not wait for the task
        with suppress(StreamClosedError):
            self._send(answer).add_done_callback(_ignore_disconnect)

    def on_connection_close(self) -> None:
        self.note_disconnect()


def _ignore_disconnect(sent: asyncio.Future[None]) -> None:
    if not sent.cancelled():
        sent.exception()  # prevents "exception was never retrieved"


async def _serve(
    run: Run,
    port: int,
    backlog: int,
    pool: AbstractAsyncContextManager[object] | None,
    protection: Protection,
) -> None:
    async with pool or nullcontext():
        listening = listen(port, backlog)
        port = listening.getsockname()[1]
        ready = partial(readiness.announce, port)
        await _accept(run, listening, backlog, ready, protection)


async def _serve_application(work: str, port: int, backlog: int) -> None:
    listening = listen(port, backlog)
    ready = partial(readiness.announce, listening.getsockname()[1])
    await _accept_for(work, listening, backlog, ready)


async def _accept_for(
    work: str,
    listening: ListeningSocket,
    backlog: int,
    ready: Callable[[], None],
    is_shared: bool = False,
) -> None:
    """Serve a user's application: its module is imported on the loop, which it may need."""
    from offload.serving.applications import clocked_tornado  # here: tasks do not need its clocks
    from offload.serving.metrics import request_clock

    if limits.configured_hosts():
        what = "allowed_hosts= is for tasks, and for applications of ASGI and WSGI"
        raise UsageError(what, "name the hosts in the rules of the application")
    own_gil.watch_gil()
    probe.collect_on_request()
    server = HTTPServer(clocked_tornado.create(work))

    async def finish(quiet_s: float) -> None:
        started, inside = request_clock.count_started, request_clock.count_inside
        await drain.wait_until_quiet(started, lambda: inside() > 0, quiet_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(drain.SENDING):
                while any(each.stream.writing() for each in server._connections):
                    await asyncio.sleep(POLL)

    await _serve_until_stopped(server, finish, listening, backlog, ready, is_shared)


async def _accept(
    run: Run,
    listening: ListeningSocket,
    backlog: int,
    ready: Callable[[], None],
    protection: Protection,
    is_shared: bool = False,
) -> None:
    log.redirect_loggers("tornado", "asyncio")
    requests = drain.Requests()
    server = _create_server(run, requests, protection, listening)
    loop_lag.watch(asyncio.get_running_loop())
    await _serve_until_stopped(server, requests.finish, listening, backlog, ready, is_shared)
    if protection.guard is not None and protection.guard.stuck:
        if not is_shared:
            readiness.end()
        exit_now(0)  # their requests were answered, and nothing else ends these tasks


async def _serve_until_stopped(
    server: HTTPServer,
    finish: Callable[[float], Awaitable[None]],
    listening: ListeningSocket,
    backlog: int,
    ready: Callable[[], None],
    is_shared: bool,
) -> None:
    """Serve until a stop signal, then the connections in the listen queue.

    `finish` waits until no request is in progress and none arrives for a time in s.
    """
    server.add_sockets([listening])
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    stop.set_callback(lambda: loop.call_soon_threadsafe(stopped.set))
    ready()
    await stopped.wait()
    handshake_s = drain.HANDSHAKE if is_shared else drain.refuse_new(listening)
    quiet_s = await drain.accept_waiting(listening, backlog, handshake_s)
    server.stop()
    await finish(drain.LATE_QUIET if is_shared else quiet_s)
    await server.close_all_connections()


def _create_server(
    run: Run, requests: drain.Requests, protection: Protection, listening: ListeningSocket
) -> HTTPServer:
    arguments: dict[str, Any] = {"run": run, "requests": requests}
    if (guard := protection.guard) is None:
        server, handler = Server, _Handler
    else:
        server, handler = BoundedServer, _ProtectedHandler
        arguments["guard"] = guard
    handlers: list[Any] = [(".*", handler, arguments)]
    if protection.has_health:
        handlers[:0] = health.handlers(guard)
    created = server(_Application(handlers, log_function=lambda _: None), **LIMITS)
    if isinstance(created, BoundedServer):
        created.maximum, created.listening = protection.max_connections, listening
    return created
