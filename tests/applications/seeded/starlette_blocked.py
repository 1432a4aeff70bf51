"""Starlette: an async route that blocks its event loop. Seeded: loop_blocked."""

import time

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def quote(request: Request) -> PlainTextResponse:
    time.sleep(0.04)  # a query by a driver that is not async
    return PlainTextResponse("quote")


app = Starlette(routes=[Route("/quote/{number}", quote)])
