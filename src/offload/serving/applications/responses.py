"""The answers every server gives alike: the task's body, its failure, /resources/ and 404."""

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


def of(timed: task_clock.Timed) -> Answer:
    """Answer the body that a task returned, or 500 and why, and keep what the task took."""
    outcome = task_clock.note(timed)
    if isinstance(outcome, TaskFailed):
        return failed(outcome)
    probe.answered["completed"] += 1
    return Answer(200, "text/html; charset=utf-8", outcome)


def failed(error: Exception) -> Answer:
    """Answer 500 with one line that says why, and log it."""
    probe.answered["failed"] += 1
    log.failed(str(error))
    return _plain(500, log.escaped(str(error)))


def other(uri: str) -> Answer | None:
    """Answer any path but the task's own, `/`, for which it is None."""
    path, _, query = uri.partition("?")
    if path == "/":
        return None
    if path != "/resources/":
        return _plain(404, "only / and /resources/ are served here")
    try:
        window = _window(query)
    except ValueError:
        return _plain(400, "ask /resources/?from=A&to=B in seconds of CLOCK_MONOTONIC, A before B")
    told = probe.resources()
    if window is not None:
        told |= {**loop_lag.between(*window), **task_clock.between(*window)}
        if query.endswith("&each"):
            told["each"] = task_clock.each(*window)
    return Answer(200, "application/json", json.dumps(told, indent=2).encode() + b"\n")


def _window(query: str) -> tuple[float, float] | None:
    """Read from and to, in seconds of CLOCK_MONOTONIC; None when neither is asked for."""
    asked = dict(parse_qsl(query, keep_blank_values=True))
    if not asked:
        return None
    begin, end = (float(asked.get(key, "nan")) for key in ("from", "to"))
    if not begin <= end:  # so is it, too, when one of them is missing or nan
        raise ValueError
    return begin, end


def _plain(status: int, line: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", line.encode() + b"\n")
