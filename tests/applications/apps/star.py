"""A Starlette application with a parameter in a route."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def quote(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"quote {request.path_params['number']}")


app = Starlette(routes=[Route("/quote/{number}", quote)])
