"""The patience of a client: which failures of a fetch are tried again, and how often."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import ParamSpec, TypeVar

import tenacity
from tornado.httpclient import HTTPClientError
from tornado.iostream import StreamClosedError

from offload.tasks._fetch import FetchFailed

P = ParamSpec("P")
T = TypeVar("T")

TRIES = 20  # at 50 % failures, one call in a million gives up


def _passes(error: BaseException) -> bool:
    """Tell what may pass from what stays: a wrong certificate, an unknown host, a timeout stay."""
    cause = error.__cause__ if isinstance(error, FetchFailed) else error
    if isinstance(cause, HTTPClientError):
        return bool(cause.code == 500)
    return isinstance(cause, ConnectionError | StreamClosedError)


def patient(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[None, None, T]]:
    """Retry a fetch that fails in a way that may pass, TRIES times in all.

    Each call has its own AsyncRetrying: what `tenacity.retry` returns shares its statistics
    between threads, and then raises KeyError (jd/tenacity#701).
    """

    @functools.wraps(function)
    async def retried(*args: P.args, **kwargs: P.kwargs) -> T:
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_passes),
            stop=tenacity.stop_after_attempt(TRIES),
            wait=tenacity.wait_none(),
            reraise=True,
        )
        return await retrying(function, *args, **kwargs)

    return retried
