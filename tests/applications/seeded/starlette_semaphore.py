"""Starlette: a semaphore, which a factory keeps in its application. Seeded: waits_elsewhere."""

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def quote(request: Request) -> PlainTextResponse:
    async with request.app.state.suppliers:
        await asyncio.sleep(0.05)
    return PlainTextResponse("quote")


def create() -> Starlette:
    """Create the application."""
    application = Starlette(routes=[Route("/quote/{number}", quote)])
    application.state.suppliers = asyncio.Semaphore(4)
    return application
