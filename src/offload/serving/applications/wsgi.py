"""Any task as a WSGI application: it runs in the worker that handles the request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from offload import tasks
from offload.registry.application import is_application
from offload.serving.applications import responses, user_worker
from offload.serving.lifecycle import worker_ready
from offload.serving.metrics import task_clock

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]
Start = Callable[[str, list[tuple[str, str]]], object]


class Application:
    """Respond to `/` with the task, to `/resources/`, else with 404.

    `call` runs the task by its name.
    """

    def __init__(
        self, task: str, call: Callable[[str], task_clock.TimedResult] = task_clock.call
    ) -> None:
        tasks.resolve(task)
        self._task = task
        self._call = call

    def __call__(self, environ: dict[str, Any], start_response: Start) -> list[bytes]:
        """Respond to one request."""
        uri = f"{environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}"
        answer = responses.for_path(uri) or responses.from_task(self._call(self._task))
        status = f"{answer.status} {HTTPStatus(answer.status).phrase}"
        length = str(len(answer.body))
        start_response(status, [("Content-Type", answer.content_type), ("Content-Length", length)])
        return [answer.body]


def create(work: str) -> Wsgi:
    """Create the application of a task, or a user's own; raise UsageError."""
    if not is_application(work):
        return Application(work)
    from offload.serving.applications.clocked_wsgi import ClockedApplication

    return ClockedApplication(work)


def application() -> Wsgi:
    """Create the application in a worker process of an external server."""
    created = user_worker.create(create, worker_ready.work())
    worker_ready.ready()
    return created
