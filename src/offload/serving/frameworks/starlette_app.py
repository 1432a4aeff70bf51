"""A Starlette application with one plain `def` endpoint, which runs any task."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from offload.errors import UserError
from offload.serving.applications import responses, user_worker
from offload.serving.frameworks import uvicorn_server
from offload.serving.lifecycle import readiness
from offload.serving.metrics import loop_lag, probe, task_clock, thread_use
from offload.serving.pools import anyio_threads


def serve(task: str, port: int, backlog: int, processes: int, tokens: int) -> None:
    """Serve a task in `processes`, each with `tokens` worker threads, until a stop signal."""
    if processes == 1:
        threads = anyio_threads.Threads(task, tokens)
        uvicorn_server.serve(application(task), port, backlog, within=threads)
        return
    probe.note_external_workers("uvicorn")
    supervise(task, port, backlog, processes, tokens)


def supervise(task: str, port: int, backlog: int, processes: int, tokens: int) -> None:
    """Serve a task in `processes` that are not this one, each with `tokens` worker threads."""
    application = f"{__name__}:supervised"
    uvicorn_server.supervise_task(task, port, backlog, processes, application, tokens)


def supervised() -> Starlette:
    """Create the application of a supervised process, and its worker threads when it starts."""
    task, tokens = uvicorn_server.join_supervisor(), int(os.environ[thread_use.TOKENS])
    probe.facts["workers"] = tokens
    threads = anyio_threads.Threads(task, tokens)
    return user_worker.create(partial(application, within=threads), task)


def application(task: str, within: AbstractAsyncContextManager[object] | None = None) -> Starlette:
    """Create the application; it runs inside `within`, on the threads of its event loop."""

    def answer(request: Request) -> Response:
        loop_lag.note_request()
        query = request.scope["query_string"].decode("latin-1")
        found = (
            responses.refusal(request.method, request.headers.get("host"))
            or responses.answer_path(request.scope["path"], query)
            or responses.from_task(task_clock.call(task))
        )
        return Response(found.body, found.status, {"content-type": found.content_type})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        loop_lag.watch(asyncio.get_running_loop())
        try:
            async with within or nullcontext():
                yield
        except UserError as error:  # not raised: uvicorn would print a traceback
            readiness.abort_start(error)

    return Starlette(routes=[Route("/{path:path}", answer)], lifespan=lifespan)
