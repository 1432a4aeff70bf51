"""The answers every server gives alike: the task's body, its failure, /resources/ and 404."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from servers import _log, _probe
from tasks import TaskFailed


@dataclass(frozen=True)
class Answer:
    """A status, a content type and a body."""

    status: int
    content_type: str
    body: bytes


def of(task: Callable[[], bytes]) -> Answer:
    """Run a task in this thread and answer its body, or 500 and why."""
    try:
        return completed(task())
    except TaskFailed as error:
        return failed(error)


def completed(body: bytes) -> Answer:
    """Answer what a task returned."""
    _probe.answered["completed"] += 1
    return Answer(200, "text/html; charset=utf-8", body)


def failed(error: Exception) -> Answer:
    """Answer 500 with one line that says why, and log it."""
    _probe.answered["failed"] += 1
    _log.failed(str(error))
    return Answer(500, "text/plain; charset=utf-8", _log.escaped(str(error)).encode() + b"\n")


def other(path: str) -> Answer | None:
    """Answer any path but the task's own, `/`, for which it is None."""
    plain = path.partition("?")[0]
    if plain == "/":
        return None
    if plain == "/resources/":
        body = json.dumps(_probe.resources(), indent=2).encode() + b"\n"
        return Answer(200, "application/json", body)
    return Answer(404, "text/plain; charset=utf-8", b"only / and /resources/ are served here\n")
