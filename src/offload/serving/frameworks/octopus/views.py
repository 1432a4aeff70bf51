"""The views of the paths that every server has: the task, /resources/ and 404."""

from __future__ import annotations

import os

from django.http import HttpRequest, HttpResponse

from offload.serving.applications import responses
from offload.serving.lifecycle import worker_ready
from offload.serving.metrics import task_clock


def sync_view(request: HttpRequest) -> HttpResponse:
    """Call the task in this thread."""
    answer = responses.for_path(request.get_full_path())
    return _response(answer or responses.from_task(task_clock.call(os.environ[worker_ready.TASK])))


async def async_view(request: HttpRequest) -> HttpResponse:
    """Await the task on this event loop."""
    answer = responses.for_path(request.get_full_path())
    return _response(
        answer or responses.from_task(await task_clock.acall(os.environ[worker_ready.TASK]))
    )


def _response(answer: responses.Answer) -> HttpResponse:
    return HttpResponse(answer.body, answer.content_type, answer.status)
