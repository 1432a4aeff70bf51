"""Starlette: many short-lived rows of text, which are no objects that a collection visits.

Seeded: nothing. It looks like starlette_catalogue.
"""

from array import array

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

CATALOGUE = array("q", range(400_000))


async def quote(request: Request) -> PlainTextResponse:
    number = int(request.path_params["number"])
    rows = [f"{number} {each}" for each in range(4000)]
    return PlainTextResponse(str(CATALOGUE[number] + len(rows)))


app = Starlette(routes=[Route("/quote/{number}", quote)])
