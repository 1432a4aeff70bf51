"""The responses that all servers share: the task's body, its failure, /resources/ and refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from json import dumps  # imported by name: a task may replace it
from urllib.parse import parse_qsl

from offload.errors import escaped
from offload.serving.lifecycle import log
from offload.serving.metrics import loop_lag, probe, task_clock
from offload.serving.protection import limits
from offload.tasks import TaskFailed

UNKNOWN_PATH = (
    "this server has the paths / and /resources/; servers on Tornado with health=yes also have "
    "/healthz, /readyz and /metrics"
)


@dataclass(frozen=True)
class Answer:
    """A status, a content type and a body.

    `allow` is the Allow header of a 405 response, `retry_after` the Retry-After header of a 503 one
    in s.
    """

    status: int
    content_type: str
    body: bytes
    allow: str | None = None
    retry_after: int | None = None

    def content(self, method: str | None) -> bytes:
        """Return the body, or nothing for HEAD; the Content-Length is that of the body."""
        return b"" if method == "HEAD" else self.body

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of the response, with lower-case names."""
        found = [("content-type", self.content_type), ("content-length", str(len(self.body)))]
        return [*found, *self.more_headers()]

    def more_headers(self) -> list[tuple[str, str]]:
        """Return the headers that only some responses have."""
        found = {"allow": self.allow, "retry-after": self.retry_after}
        return [(name, str(value)) for name, value in found.items() if value is not None]


def from_task(timed: task_clock.TimedResult) -> Answer:
    """Return the task's body, or 500 with its error, and record the task's times."""
    outcome = task_clock.record(timed)
    if isinstance(outcome, TaskFailed):
        return from_error(outcome)
    probe.count_response("completed")
    return Answer(200, "text/html; charset=utf-8", outcome)


def from_error(error: Exception, status: int = 500, retry_after: int | None = None) -> Answer:
    """Return the error in one line, and log it."""
    probe.count_response("failed")
    log.failure(str(error))
    return _plain(status, escaped(str(error)), retry_after)


def refusal(method: str | None, host: str | None) -> Answer | None:
    """Return the response to a method or a Host header that is not allowed; else None."""
    if not limits.is_host_allowed(host):
        return misdirected()
    if not limits.is_method_allowed(method):
        refused = _plain(405, f"only {limits.ALLOW.replace(', ', ' and ')} are allowed")
        return replace(refused, allow=limits.ALLOW)
    return None


def misdirected() -> Answer:
    """Return 421: the name in the Host header is not one of this server's."""
    return _plain(421, "the Host is no name of this server: add it with allowed_hosts=NAME")


def too_many_headers() -> Answer:
    """Return 431: the request has more than `limits.HEADERS` headers."""
    return _plain(431, f"at most {limits.HEADERS} headers are allowed")


def unavailable(line: str, retry_after: int | None = None) -> Answer:
    """Return 503: the server does not run the task now."""
    return _plain(503, line, retry_after)


def timed_out(seconds: float) -> Answer:
    """Return 504: the task ran for longer than its timeout."""
    log.failure(f"a task exceeded task_timeout={seconds:g}")
    return _plain(504, f"the task did not end within {seconds:g} s")


def answer_uri(uri: str) -> Answer | None:
    """Return the response to any path except the task's `/`; None for `/` with any query."""
    path, _, query = uri.partition("?")
    return answer_path(path, query)


def answer_path(path: str, query: str) -> Answer | None:
    """Return the same as `answer_uri`, for a path that is decoded: a `?` in it begins no query."""
    if path == "/":
        return None
    if path != "/resources/":
        return _plain(404, UNKNOWN_PATH)
    try:
        window = _window(query)
    except ValueError:
        return _plain(400, "use /resources/?from=A&to=B in seconds of CLOCK_MONOTONIC, A before B")
    report = probe.resources()
    if window is not None:
        report |= {**loop_lag.between(*window), **task_clock.between(*window)}
        if query.endswith("&each"):
            report["each"] = task_clock.each(*window)
    return Answer(200, "application/json", dumps(report, indent=2).encode() + b"\n")


def _window(query: str) -> tuple[float, float] | None:
    """Parse from and to, in seconds of CLOCK_MONOTONIC; None without a query."""
    values = dict(parse_qsl(query, keep_blank_values=True))
    if not values:
        return None
    start, end = (float(values.get(key, "nan")) for key in ("from", "to"))
    if not 0 <= start <= end < math.inf:  # also true if one of them is missing or nan
        raise ValueError
    return start, end


def _plain(status: int, line: str, retry_after: int | None = None) -> Answer:
    return Answer(
        status, "text/plain; charset=utf-8", line.encode() + b"\n", retry_after=retry_after
    )
