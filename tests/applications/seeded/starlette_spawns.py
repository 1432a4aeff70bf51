"""Starlette: each request starts a task that takes longer than a request. Seeded: backlog_grows."""

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

tasks: set[asyncio.Task[None]] = set()


async def learn() -> None:
    for _ in range(1000):
        sum(range(500))
        await asyncio.sleep(0)


async def quote(request: Request) -> Response:
    task = asyncio.create_task(learn())
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return PlainTextResponse(request.path_params["number"])


app = Starlette(routes=[Route("/quote/{number}", quote)])
