"""A FastAPI application whose four routes fetch from the upstream in different ways."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import aiohttp
from fastapi import FastAPI, Request, Response

from offload.serving.applications import asgi, responses
from offload.serving.frameworks import upstream_wait
from offload.serving.lifecycle import parent_watch, worker_ready
from offload.serving.metrics import probe, task_clock

POOL = 16  # threads behind to_thread: the default on the published machine's 12 CPU threads


def application() -> asgi.Asgi:
    """Create the application; each process calls this once."""
    task = os.environ[worker_ready.TASK]
    probe.facts.update(probe.identity(), server="fastapi_requests", task=task)
    app = FastAPI(lifespan=_lifespan, docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/requests_async")
    async def requests_async(seconds: float) -> dict[str, str]:
        return {"answer": upstream_wait.fetch(seconds)}  # the classic mistake: it blocks the loop

    @app.get("/requests_sync")
    def requests_sync(seconds: float) -> dict[str, str]:
        return {"answer": upstream_wait.fetch(seconds)}  # in one of the framework's 40 threads

    @app.get("/requests_to_thread_async")
    async def requests_to_thread_async(seconds: float) -> dict[str, str]:
        return {"answer": await asyncio.to_thread(upstream_wait.fetch, seconds)}

    @app.get("/aiohttp_async")
    async def aiohttp_async(seconds: float) -> dict[str, str]:
        params = {"seconds": str(seconds)}
        async with app.state.session.get(upstream_wait.URL, params=params) as response:
            response.raise_for_status()
            return {"answer": await response.text()}

    @app.api_route("/{path:path}", methods=["GET", "HEAD"])
    def any_other(path: str, request: Request) -> Response:
        found = responses.answer_path(f"/{path}", request.url.query)
        answer = found or responses.from_task(task_clock.call(task))
        return Response(answer.body, answer.status, media_type=answer.content_type)

    return asgi.HostChecked(app)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Set up a process: it ends with its parent, and has one thread pool and one session."""
    parent_watch.start()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(POOL))
    timeout = aiohttp.ClientTimeout(total=upstream_wait.TIMEOUT)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        app.state.session = session
        yield
