"""Starlette: rows that stay for a while, beside a large catalogue. Seeded: collector."""

from collections import deque

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

CATALOGUE = {number: [number, (number, str(number))] for number in range(400_000)}
RECENT: deque[list[dict[str, list[int]]]] = deque(maxlen=60)


async def quote(request: Request) -> PlainTextResponse:
    number = int(request.path_params["number"])
    RECENT.append([{"row": [number, each]} for each in range(2000)])
    return PlainTextResponse(str(CATALOGUE[number][0]))


app = Starlette(routes=[Route("/quote/{number}", quote)])
