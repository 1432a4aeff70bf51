"""Any task as a WSGI application: it runs in the worker that handles the request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from offload import tasks
from offload.registry.catalog import is_application
from offload.serving.applications import responses, user_worker
from offload.serving.applications.clocked_wsgi import ClockedApplication
from offload.serving.lifecycle import worker_ready
from offload.serving.metrics import task_clock
from offload.serving.protection import limits

Wsgi = Callable[[dict[str, Any], Any], Iterable[bytes]]
StartResponse = Callable[[str, list[tuple[str, str]]], object]


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

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        """Respond to one request."""
        answer = (
            responses.refusal(environ["REQUEST_METHOD"], environ.get("HTTP_HOST"))
            or responses.answer_path(environ["PATH_INFO"], environ.get("QUERY_STRING", ""))
            or responses.from_task(self._call(self._task))
        )
        return _start(answer, environ, start_response)


class HostChecked:
    """A WSGI application that gets only requests with an allowed Host header."""

    def __init__(self, application: Wsgi) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Pass a request on, or respond with 421."""
        if limits.is_host_allowed(environ.get("HTTP_HOST")):
            return self._application(environ, start_response)
        return _start(responses.misdirected(), environ, start_response)


def create(work: str) -> Wsgi:
    """Create the application of a task, or a user's own; raise UsageError."""
    if not is_application(work):
        return Application(work)
    clocked = ClockedApplication(work)
    return HostChecked(clocked) if limits.configured_hosts() else clocked


def application() -> Wsgi:
    """Create the application in a worker process of an external server."""
    created = user_worker.create(create, worker_ready.work())
    worker_ready.ready()
    return created


def _start(
    answer: responses.Answer, environ: dict[str, Any], start_response: StartResponse
) -> list[bytes]:
    """Start a response, and return its body as the application's result."""
    status = f"{answer.status} {HTTPStatus(answer.status).phrase}"
    start_response(status, [(name.title(), value) for name, value in answer.headers()])
    return [answer.content(environ["REQUEST_METHOD"])]
