"""The responses that all servers share: the task's body, its failure, /resources/ and 404."""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.parse import parse_qsl

from offload.serving.lifecycle import log
from offload.serving.metrics import loop_lag, probe, task_clock
from offload.tasks import TaskFailed


@dataclass(frozen=True)
class Answer:
    """A status, a content type and a body."""

    status: int
    content_type: str
    body: bytes
    retry_after: int | None = None  # s, for the header Retry-After; only protected servers send it


def from_task(timed: task_clock.TimedResult) -> Answer:
    """Return the task's body, or 500 with its error, and record the task's times."""
    outcome = task_clock.record(timed)
    if isinstance(outcome, TaskFailed):
        return from_error(outcome)
    probe.response_counts["completed"] += 1
    return Answer(200, "text/html; charset=utf-8", outcome)


def from_error(error: Exception) -> Answer:
    """Return 500 with the error in one line, and log it."""
    probe.response_counts["failed"] += 1
    log.failure(str(error))
    return _plain(500, log.escaped(str(error)))


def unavailable(line: str, retry_after: int | None = None) -> Answer:
    """Return 503: the server does not run the task now."""
    return _plain(503, line, retry_after)


def timed_out(seconds: float) -> Answer:
    """Return 504: the task ran for longer than its timeout."""
    log.failure(f"a task exceeded task_timeout={seconds:g}")
    return _plain(504, f"the task did not end within {seconds:g} s")


def for_path(uri: str) -> Answer | None:
    """Return the response to any path except the task's `/`; None for `/`."""
    path, _, query = uri.partition("?")
    if path == "/":
        return None
    if path != "/resources/":
        return _plain(404, "only / and /resources/ are served here")
    try:
        window = _window(query)
    except ValueError:
        return _plain(400, "use /resources/?from=A&to=B in seconds of CLOCK_MONOTONIC, A before B")
    report = probe.resources()
    if window is not None:
        report |= {**loop_lag.between(*window), **task_clock.between(*window)}
        if query.endswith("&each"):
            report["each"] = task_clock.each(*window)
    return Answer(200, "application/json", json.dumps(report, indent=2).encode() + b"\n")


def _window(query: str) -> tuple[float, float] | None:
    """Parse from and to, in seconds of CLOCK_MONOTONIC; None without a query."""
    values = dict(parse_qsl(query, keep_blank_values=True))
    if not values:
        return None
    start, end = (float(values.get(key, "nan")) for key in ("from", "to"))
    if not start <= end:  # also true if one of them is missing or nan
        raise ValueError
    return start, end


def _plain(status: int, line: str, retry_after: int | None = None) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", line.encode() + b"\n", retry_after)
