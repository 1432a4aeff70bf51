"""Starlette: an async background task blocks the loop after the response. Seeded: loop_blocked."""

import time

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def notify() -> None:
    time.sleep(0.05)


async def quote(request: Request) -> PlainTextResponse:
    return PlainTextResponse("quote", background=BackgroundTask(notify))


app = Starlette(routes=[Route("/quote/{number}", quote)])
