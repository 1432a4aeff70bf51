"""Clocks around the handlers of a user's Tornado application, which run as before.

Tornado runs the coroutine `RequestHandler._execute` for each request, and calls `log_request` of
the application when its response is complete. Nothing else of the application is changed.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler

from offload.serving.applications import loop_clock, user_application
from offload.serving.metrics import process_report
from offload.serving.metrics.request_clock import Request

REQUEST = "_offload_request"  # the attribute of a handler that has its clocked request
_execute: Any = None  # that of Tornado, or what the user's code has replaced it by


def create(work: str) -> Application:
    """Import `app=shop.web:app` on the running loop; raise UsageError if it is not of Tornado."""
    application = user_application.load(work, user_application.TORNADO)
    assert isinstance(application, Application)
    process_report.start(user_application.TORNADO, application)
    global _execute
    _execute = RequestHandler._execute
    RequestHandler._execute = _run_clocked  # type: ignore[assignment,method-assign]
    log = application.log_request

    def log_request(handler: RequestHandler) -> None:
        request = getattr(handler, REQUEST, None)
        if request is not None:
            request.note_status(handler.get_status())
            request.note_response()
        log(handler)

    application.log_request = log_request  # type: ignore[method-assign]
    return application


async def _run_clocked(handler: RequestHandler, *arguments: Any, **named: Any) -> None:
    """Run a handler for a request as Tornado does, with clocks."""
    if isinstance(handler, WebSocketHandler):  # this would be its whole connection
        await _execute(handler, *arguments, **named)
        return

    def respond(request: Request | None) -> Awaitable[None]:
        setattr(handler, REQUEST, request)
        run: Awaitable[None] = _execute(handler, *arguments, **named)
        return run

    await loop_clock.clock(handler.application, respond, lambda: _route(handler))


def _route(handler: RequestHandler) -> str:
    """Return the method and the path, in which {} stands for what the route's pattern captured."""
    path = handler.request.path
    # Both are missing if Tornado refused the request before.
    captured = [*getattr(handler, "path_args", ()), *getattr(handler, "path_kwargs", {}).values()]
    for value in captured:
        if value:
            path = path.replace(f"/{value}", "/{}", 1)
    return f"{handler.request.method} {path}"
