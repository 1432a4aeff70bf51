"""Any task as an RSGI application: it runs on the event loop and responds in one call."""

from __future__ import annotations

from typing import Any

from offload import tasks
from offload.serving.applications import responses, sized_responses
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
        content = sized_responses.for_path(scope.path)
        if isinstance(content, str):
            protocol.response_str(200, SIZED, content)
            return
        if content is not None:
            protocol.response_bytes(200, SIZED, content)
            return
        uri = f"{scope.path}?{scope.query_string}"
        answer = responses.for_path(uri) or responses.from_task(await task_clock.acall(self._task))
        headers = [("content-type", answer.content_type)]
        protocol.response_bytes(answer.status, headers, answer.body)


def application() -> Application:
    """Create the application in a worker process of an external server."""
    return Application(worker_ready.report())
