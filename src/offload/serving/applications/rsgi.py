"""Any task as an RSGI application: it runs on the event loop and responds in one call."""

from __future__ import annotations

from typing import Any

from offload import tasks
from offload.serving.applications import responses, sized_responses, user_worker
from offload.serving.lifecycle import worker_ready
from offload.serving.metrics import task_clock

SIZED = [("content-type", sized_responses.CONTENT_TYPE)]


class Application:
    """Respond to `/` with the task, to `/resources/`, to `/bytes/N` and `/str/N`, else with 404."""

    def __init__(self, task: str) -> None:
        tasks.resolve(task)
        self._task = task

    async def __rsgi__(self, scope: Any, protocol: Any) -> None:
        """Respond to one request."""
        host = scope.headers.get("host") or scope.authority  # HTTP/2 has only the authority
        if (refused := responses.refusal(scope.method, host)) is not None:
            _send(protocol, refused, scope.method)
            return
        if (content := sized_responses.find_body(scope.path)) is not None:
            _send_sized(protocol, content, scope.method)
            return
        found = responses.answer_path(scope.path, scope.query_string)
        answer = found or responses.from_task(await task_clock.acall(self._task))
        _send(protocol, answer, scope.method)


def _send_sized(protocol: Any, content: bytes | str, method: str) -> None:
    if method == "HEAD":
        protocol.response_empty(200, [*SIZED, ("content-length", str(len(content)))])
    elif isinstance(content, str):
        protocol.response_str(200, SIZED, content)
    else:
        protocol.response_bytes(200, SIZED, content)


def _send(protocol: Any, answer: responses.Answer, method: str) -> None:
    """Send a response; granian adds its own Content-Length to one that has a body."""
    if method == "HEAD":
        protocol.response_empty(answer.status, answer.headers())
        return
    headers = [pair for pair in answer.headers() if pair[0] != "content-length"]
    protocol.response_bytes(answer.status, headers, answer.body)


def application() -> Application:
    """Create the application in a worker process of an external server."""
    created = user_worker.create(Application, worker_ready.work())
    worker_ready.ready()
    return created
