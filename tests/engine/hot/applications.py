"""Applications of which one part blocks: a middleware, a body, a background task, or a route."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from fastapi import BackgroundTasks, FastAPI, Request, Response
from fastapi.responses import StreamingResponse

with_middleware = FastAPI()
with_body = FastAPI()
with_background = FastAPI()
with_def_route = FastAPI()
with_async_route = FastAPI()
with_await = FastAPI()


@with_middleware.middleware("http")
async def check_session(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    time.sleep(0.02)  # hot: with_middleware
    return await call_next(request)


@with_middleware.get("/")
async def page() -> str:
    return "a page"


@with_body.get("/")
async def export() -> StreamingResponse:
    return StreamingResponse(rows())


async def rows() -> AsyncIterator[bytes]:
    for number in range(4):
        time.sleep(0.005)  # hot: with_body
        yield b"row %d\n" % number


@with_background.get("/")
async def order(tasks: BackgroundTasks) -> str:
    tasks.add_task(send_mail)
    return "ordered"


async def send_mail() -> None:
    time.sleep(0.02)  # hot: with_background


@with_def_route.get("/")
def report() -> str:
    time.sleep(0.02)  # hot: with_def_route
    return "a report"


@with_async_route.get("/")
async def quote() -> str:
    total = 0
    for number in range(200_000):
        total += number * number % 97 * number % 89  # hot: with_async_route
    return str(total)


@with_await.get("/")
async def level() -> str:
    return await ask_stock()


async def ask_stock() -> str:
    await asyncio.sleep(0.02)  # hot: with_await
    return "3"
