"""The patience of a client: which failures of a fetch are tried again, and how often."""

from __future__ import annotations

import tenacity
from tornado.httpclient import HTTPClientError
from tornado.iostream import StreamClosedError

from tasks._fetch import FetchFailed

TRIES = 20  # at 50 % failures, one call in a million gives up


def _passes(error: BaseException) -> bool:
    """Tell what may pass from what stays: a wrong certificate, an unknown host, a timeout stay."""
    cause = error.__cause__ if isinstance(error, FetchFailed) else error
    if isinstance(cause, HTTPClientError):
        return bool(cause.code == 500)
    return isinstance(cause, ConnectionError | StreamClosedError)


patient = tenacity.retry(
    retry=tenacity.retry_if_exception(_passes),
    stop=tenacity.stop_after_attempt(TRIES),
    wait=tenacity.wait_none(),
    reraise=True,
)
