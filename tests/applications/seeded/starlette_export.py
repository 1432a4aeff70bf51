"""Starlette: an async generator yields each value by itself. Seeded: body_parts."""

from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route


async def values() -> AsyncIterator[str]:
    for number in range(1000):
        yield f"{number},"


async def quote(request: Request) -> StreamingResponse:
    return StreamingResponse(values(), media_type="text/csv")


app = Starlette(routes=[Route("/quote/{number}", quote)])
