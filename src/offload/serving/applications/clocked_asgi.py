"""Clocks around a user's ASGI application, invisible to the application and to the server.

Scopes, messages, exceptions and cancellation pass through unchanged. Four things are observed: the
lifespan's startup, the lag of the event loop, the use of anyio's threads, and the time and CPU time
of requests.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from typing import Any

from offload.errors import StartError, UsageError
from offload.serving.applications import user_application
from offload.serving.lifecycle import worker_ready
from offload.serving.metrics import loop_lag, process_report, request_clock, thread_limiter
from offload.serving.metrics.request_clock import Cell, Request, Run

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class ClockedApplication:
    """The application `app=shop.web:app`; raise UsageError if it is not ASGI."""

    def __init__(self, work: str) -> None:
        self._application = user_application.load(work, user_application.ASGI)
        if thread_limiter.TOKENS in os.environ and "anyio.to_thread" not in sys.modules:
            what = f"{work.partition('=')[2]} has no endpoints in anyio's threads"
            raise UsageError(what, "leave workers= out, or use Starlette or FastAPI")
        self._work = work
        process_report.start(user_application.ASGI, self._application)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a scope on to the application."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        loop_lag.note_request()
        cell, request = request_clock.enter()
        route = None
        try:
            if request is None:
                await self._application(scope, receive, send)
                return
            (cell.limiter or _watch(cell)).find()
            noting = _noting(send, request)
            await _Clocked(self._application(scope, receive, noting), request)
            route = _route(scope)
        except Exception as error:
            request_clock.note_error(error)
            route = _route(scope)
            raise
        finally:
            request_clock.leave(cell, request, route)

    async def _run_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application's lifespan, and report its successful or failed startup."""
        failure: str | None = None
        has_started = False
        send_error: Exception | None = None

        async def observed(message: Any) -> None:
            nonlocal failure, has_started, send_error
            if message["type"] == "lifespan.startup.failed":
                failure = _last_line(message.get("message", ""))
            try:
                await send(message)
            except Exception as error:
                send_error = error
                raise
            if message["type"] == "lifespan.startup.complete":
                has_started = True
                worker_ready.ready()

        try:
            await self._application(scope, receive, observed)
        except Exception as error:
            # An error of the server's `send` hides the error that the application was handling.
            cause = error.__context__ if error is send_error else error
            if failure is not None and cause is not None:
                failure = user_application.reason(cause)
            raise
        finally:
            if failure is not None and not has_started:
                name = self._work.partition("=")[2]
                what = f"{name} failed in its lifespan startup: {failure}"
                worker_ready.fail(StartError(what, "fix it"))
            elif not has_started:  # it does not support the lifespan: the server continues
                worker_ready.ready()


class _Clocked:
    """Run an awaitable as `await` does, and add the time of each of its runs to a request."""

    def __init__(self, awaitable: Awaitable[None], request: Request) -> None:
        self._awaitable = awaitable
        self._run = Run(request)

    def __await__(self) -> Generator[Any, Any, None]:
        steps: Any = self._awaitable.__await__()
        step, value = steps.send, None
        while True:
            try:
                with self._run:
                    waits_for = step(value)
            except StopIteration:
                return
            try:
                value = yield waits_for
                step = steps.send
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001 - pass it on, as `yield from` does
                step, value = steps.throw, error


def _watch(cell: Cell) -> thread_limiter.Watch:
    """Sample the lag of this thread's event loop, and anyio's threads, from now on."""
    cell.limiter = thread_limiter.Watch()
    loop_lag.watch(asyncio.get_running_loop(), on_sample=cell.limiter.sample)
    return cell.limiter


def _noting(send: Send, request: Request) -> Send:
    async def noting(message: Any) -> None:
        await send(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            request.note_response()

    return noting


def _route(scope: Scope) -> str:
    """Return the method and the route: its template if the framework stores it in the scope."""
    template = getattr(scope.get("route"), "path", None)
    path = template if isinstance(template, str) else str(scope.get("path", ""))
    if template is None:
        for name, value in (scope.get("path_params") or {}).items():
            path = path.replace(f"/{value}", f"/{{{name}}}", 1)
    return f"{scope.get('method', '')} {path}"


def _last_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "without a message"
