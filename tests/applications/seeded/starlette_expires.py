"""Starlette: each request starts a task that only sleeps for 5 s. Nothing is wrong."""

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

tasks: set[asyncio.Task[None]] = set()


async def quote(request: Request) -> Response:
    await asyncio.sleep(0.05)
    task = asyncio.create_task(asyncio.sleep(5.0))
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return PlainTextResponse(request.path_params["number"])


app = Starlette(routes=[Route("/quote/{number}", quote)])
