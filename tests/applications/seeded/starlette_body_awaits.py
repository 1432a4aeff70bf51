"""Starlette: the async generator of starlette_body, but it awaits. Seeded: nothing."""

import asyncio
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route


async def pages() -> AsyncIterator[bytes]:
    for _ in range(4):
        await asyncio.sleep(0.03)
        yield b"page"


async def quote(request: Request) -> StreamingResponse:
    return StreamingResponse(pages(), media_type="text/plain")


app = Starlette(routes=[Route("/quote/{number}", quote)])
