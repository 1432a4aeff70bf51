"""Clocks around a user's WSGI application, invisible to the application and to the server.

`start_response` returns the server's own write callable, and file wrappers are the server's. A list
or tuple is returned as it is; any other iterable is wrapped in an object that measures its
iteration and its close().
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from offload.serving.applications import user_application
from offload.serving.metrics import pool_use, process_report, request_clock
from offload.serving.metrics.request_clock import Cell, Request, Run

Environ = dict[str, Any]
RULE = "offload.rule"  # a key of the environment, added when the response starts


class ClockedApplication:
    """The application `app=shop.web:app`; raise UsageError if it is not WSGI."""

    def __init__(self, work: str) -> None:
        self._application = user_application.load(work, user_application.WSGI)
        process_report.start(user_application.WSGI)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Pass a request on to the application."""
        cell, request = request_clock.enter()
        try:
            if request is not None:
                pool_use.sample(request.inside, application=self._application)
            if request is None:
                body: Iterable[bytes] = self._application(environ, start_response)
            else:
                with Run(request):
                    body = self._application(environ, _noting(start_response, environ, request))
        except Exception as error:
            request_clock.note_error(error, request)
            _leave(cell, request, environ)
            raise
        except BaseException:  # the server ends the worker: a timeout
            request_clock.leave(cell, None)
            raise
        is_iterable = hasattr(body, "__iter__") or hasattr(body, "__getitem__")
        if not is_iterable:  # the server fails with it
            what = f"the application returned {type(body).__name__}, not an iterable of bytes"
            request_clock.note_error(TypeError(what), request)
        is_complete = not is_iterable or isinstance(body, list | tuple) or _is_file(body, environ)
        if request is None or is_complete:
            if request is not None and isinstance(body, list | tuple):
                request.parts = len(body)
            _leave(cell, request, environ)
            return body
        return _ClockedBody(body, cell, request, environ)


class _ClockedBody:
    """Wraps a response's iterable: its time counts for the request, which ends with `close`."""

    def __init__(
        self, body: Iterable[bytes], cell: Cell, request: Request, environ: Environ
    ) -> None:
        self._body, self._cell, self._environ = body, cell, environ
        self._request: Request | None = request
        self._run = Run(request)
        self._parts: Iterator[bytes] | None = None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            with self._run:
                if self._parts is None:
                    self._parts = iter(self._body)
                part = next(self._parts)
            if self._request is not None:
                self._request.parts += 1
            return part
        except StopIteration:
            raise
        except Exception as error:
            request_clock.note_error(error, self._request)
            raise

    def close(self) -> None:
        """Close the body if it can be closed."""
        try:
            if (close := getattr(self._body, "close", None)) is not None:
                with self._run:
                    close()
        finally:
            request, self._request = self._request, None
            if request is not None:  # servers may close twice
                _leave(self._cell, request, self._environ)


def _leave(cell: Cell, request: Request | None, environ: Environ) -> None:
    if request is not None and (cell.inside > 1 or cell.started != request.number):
        request.cpu = math.nan  # unknown: other greenlets ran on the same CPU clock
    request_clock.leave(cell, request, None if request is None else _route(environ))


def _noting(
    start_response: Callable[..., Any], environ: Environ, request: Request
) -> Callable[..., Any]:
    """Wrap `start_response` to note a failure and the route.

    Flask forgets the route once the response is complete.
    """

    def noting(*arguments: Any, **named: Any) -> Any:
        status = arguments[0] if arguments else named.get("status", "")
        code = str(status)[:3]
        request.note_status(int(code) if code.isdecimal() else 0)
        own = environ.get("werkzeug.request")
        environ[RULE] = getattr(getattr(own, "url_rule", None), "rule", None)
        return start_response(*arguments, **named)

    return noting


def _is_file(body: object, environ: Environ) -> bool:
    """Whether the body is the server's own file wrapper, which it may send without reading it."""
    wrapper = environ.get("wsgi.file_wrapper")
    return isinstance(wrapper, type) and isinstance(body, wrapper)


def _route(environ: Environ) -> str:
    """Return the method and the route: werkzeug's rule if one was noted, else the path."""
    rule = environ.get(RULE)
    path = rule if isinstance(rule, str) else environ.get("PATH_INFO", "")
    return f"{environ.get('REQUEST_METHOD', '')} {path}"
