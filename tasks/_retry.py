"""Retries: which failures of a fetch are retried, and how often."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import ParamSpec, TypeVar

import tenacity
from tornado.httpclient import HTTPClientError
from tornado.simple_httpclient import HTTPStreamClosedError

from offload.tasks._fetch import FetchFailed

P = ParamSpec("P")
T = TypeVar("T")

TRIES = 20  # at 50 % failures, one call in a million fails


def _is_transient(error: BaseException) -> bool:
    """Whether an error is transient: not a wrong certificate, an unknown host or a timeout."""
    cause = error.__cause__ if isinstance(error, FetchFailed) else error
    if isinstance(cause, HTTPClientError) and not isinstance(cause, HTTPStreamClosedError):
        return bool(cause.code == 500)
    return isinstance(cause, ConnectionError | HTTPStreamClosedError)


def retry_transient(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[None, None, T]]:
    """Retry a fetch after transient errors, TRIES tries in total.

    Each call creates its own AsyncRetrying: the decorator `tenacity.retry` shares its statistics
    between threads, and can therefore raise KeyError (jd/tenacity#701).
    """

    @functools.wraps(function)
    async def with_retries(*args: P.args, **kwargs: P.kwargs) -> T:
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_is_transient),
            stop=tenacity.stop_after_attempt(TRIES),
            wait=tenacity.wait_none(),
            reraise=True,
        )
        return await retrying(function, *args, **kwargs)

    return with_retries
