"""Starlette: its middleware runs an async route, which blocks, in another task.

Seeded: loop_blocked.
"""

import time

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def quote(request: Request) -> PlainTextResponse:
    time.sleep(0.04)
    return PlainTextResponse("quote")


app = Starlette(
    routes=[Route("/quote/{number}", quote)],
    middleware=[Middleware(BaseHTTPMiddleware, dispatch=lambda request, call: call(request))],
)
