"""FastAPI with Strawberry's GraphQL: six routes and resolvers, each calling a task differently."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import strawberry
from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool
from strawberry.fastapi import GraphQLRouter

from offload import tasks
from offload.serving.applications import asgi, responses
from offload.serving.metrics import loop_lag, task_clock


def application(task: str) -> asgi.Asgi:
    """Create the application: `/`, two plain routes and four resolvers."""

    def call() -> str:
        return tasks.call(task).decode()

    async def acall() -> str:
        return (await tasks.acall(task)).decode()

    async def in_pool() -> str:
        text: str = await run_in_threadpool(call)
        return text

    @strawberry.type
    class Query:
        blocking: str = strawberry.field(resolver=call)
        awaited: str = strawberry.field(resolver=acall)
        pooled: str = strawberry.field(resolver=in_pool)
        wrapped: str = strawberry.field(resolver=make_async(call))

    app = FastAPI(lifespan=_lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(GraphQLRouter(strawberry.Schema(Query)), prefix="/graphql")

    @app.get("/hello")
    async def hello() -> dict[str, str]:
        return {"hello": await acall()}

    @app.get("/rest")
    def rest() -> dict[str, str]:
        return {"hello": call()}  # in one of the framework's 40 threads

    @app.api_route("/{path:path}", methods=["GET", "HEAD"])
    async def any_other(path: str, request: Request) -> Response:
        found = responses.answer_path(f"/{path}", request.url.query)
        answer = found or responses.from_task(await task_clock.acall(task))
        return Response(answer.body, answer.status, media_type=answer.content_type)

    return asgi.HostChecked(app)


def make_async(blocking: Callable[[], str]) -> Callable[[], Awaitable[str]]:
    """Wrap a blocking resolver as an async one that runs in a thread of the pool."""

    @functools.wraps(blocking)
    async def wrapped() -> str:
        text: str = await run_in_threadpool(blocking)
        return text

    return wrapped


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    loop_lag.watch(asyncio.get_running_loop(), pauses=False)  # no code here sees every request
    yield
