"""The views of every path but GraphQL's: the task, /resources/ and 404, as every server has."""

from __future__ import annotations

import os

from django.http import HttpRequest, HttpResponse

from offload.servers import _answer, _begun, _clock


def called(request: HttpRequest) -> HttpResponse:
    """Call the task in this thread."""
    answer = _answer.other(request.get_full_path())
    return _response(answer or _answer.of(_clock.call(os.environ[_begun.TASK])))


async def awaited(request: HttpRequest) -> HttpResponse:
    """Await the task on this event loop."""
    answer = _answer.other(request.get_full_path())
    return _response(answer or _answer.of(await _clock.acall(os.environ[_begun.TASK])))


def _response(answer: _answer.Answer) -> HttpResponse:
    return HttpResponse(answer.body, answer.content_type, answer.status)
