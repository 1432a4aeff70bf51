"""The views of the paths that every server has: the task, /resources/ and 404."""

from __future__ import annotations

import os

from django.http import HttpRequest, HttpResponse

from offload.serving.applications import responses
from offload.serving.lifecycle import worker_ready
from offload.serving.metrics import task_clock


def sync_view(request: HttpRequest) -> HttpResponse:
    """Call the task in this thread."""
    answer = _without_task(request)
    if answer is None:
        answer = responses.from_task(task_clock.call(os.environ[worker_ready.TASK]))
    return _response(answer, request)


async def async_view(request: HttpRequest) -> HttpResponse:
    """Await the task on this event loop."""
    answer = _without_task(request)
    if answer is None:
        answer = responses.from_task(await task_clock.acall(os.environ[worker_ready.TASK]))
    return _response(answer, request)


def _without_task(request: HttpRequest) -> responses.Answer | None:
    """Return the response to a refused method or another path; `site` has checked the host."""
    refused = responses.refusal(request.method, None)
    return refused or responses.answer_uri(request.get_full_path())


def _response(answer: responses.Answer, request: HttpRequest) -> HttpResponse:
    content = answer.content(request.method)
    return HttpResponse(content, status=answer.status, headers=dict(answer.headers()))
