"""Clocks around a user's ASGI application, invisible to the application and to the server.

Scopes, messages, exceptions and cancellation pass through unchanged. The lifespan's startup, the
parts of responses and what a request does on its event loop are observed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from time import monotonic
from typing import Any

from offload.errors import StartError, UsageError
from offload.serving.applications import loop_clock, user_application
from offload.serving.lifecycle import worker_ready
from offload.serving.metrics import process_report, thread_use
from offload.serving.metrics.request_clock import Request

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class ClockedApplication:
    """The application `app=shop.web:app`; raise UsageError if it is not ASGI."""

    def __init__(self, work: str) -> None:
        self._application = user_application.load(work, user_application.ASGI)
        if thread_use.TOKENS in os.environ and "anyio.to_thread" not in sys.modules:
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
        application = self._application

        def respond(request: Request | None) -> Awaitable[None]:
            own = send if request is None else _Response(send, request).send
            awaited: Awaitable[None] = application(scope, receive, own)
            return awaited

        await loop_clock.clock(application, respond, lambda: _route(scope))

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


GAP = 0.001  # s between two messages in which the application works; a guess
TIMED_PARTS = 64  # of a body; further ones only if it blocked the loop before


class _Response:
    """Counts the parts of a response, and times what blocks the loop between two of them.

    The application may send them from another task than the one that the server started. If the
    loop has not turned since the last message, the time between the two is the application's.
    """

    def __init__(self, send: Send, request: Request) -> None:
        self._send = send
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._begun = self._last = 0.0
        self._is_same_turn = False

    async def send(self, message: Any) -> None:
        """Pass a message on."""
        is_body = message["type"] == "http.response.body"
        if is_body and message.get("body"):
            self._request.parts += 1
        if self._is_same_turn and (gap := monotonic() - self._last) >= GAP:
            self._request.body_blocks += 1
            self._request.body_blocked += gap
        if message["type"] == "http.response.start":
            self._request.note_status(message.get("status", 0))
        await self._send(message)
        self._last = monotonic()
        if is_body and not message.get("more_body"):
            self._end_run()
            self._request.note_response()
        elif not self._is_same_turn and (
            self._request.parts < TIMED_PARTS or self._request.body_blocks
        ):
            self._begun, self._is_same_turn = self._last, True
            self._loop.call_soon(self._end_run)

    def _end_run(self) -> None:
        """The loop turns: note how long it could not. A run of the clocked task notes itself."""
        if self._is_same_turn and not self._request.is_running:
            self._request.note_run(self._last - self._begun)
        self._is_same_turn = False


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
