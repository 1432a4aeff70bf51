"""A Starlette application with one plain `def` endpoint, which runs any task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from offload.serving.applications import responses
from offload.serving.metrics import loop_lag, task_clock


def application(task: str) -> Starlette:
    """Create the application; it uses the worker threads of its event loop."""

    def answer(request: Request) -> Response:
        loop_lag.note_request()
        query = request.scope["query_string"].decode("latin-1")
        found = (
            responses.refusal(request.method, request.headers.get("host"))
            or responses.for_path(request.scope["path"], query)
            or responses.from_task(task_clock.call(task))
        )
        return Response(found.body, found.status, {"content-type": found.content_type})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        loop_lag.watch(asyncio.get_running_loop())
        yield

    return Starlette(routes=[Route("/{path:path}", answer)], lifespan=lifespan)
