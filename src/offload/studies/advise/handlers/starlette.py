"""Starlette, served by uvicorn."""

from __future__ import annotations

from offload.studies.advise.handlers import _asgi, _program
from offload.studies.advise.handlers._program import Plan

PACKAGES = ("starlette>=0.40", *_asgi.SERVER)
IMPORTS = (
    "from starlette.applications import Starlette",
    "from starlette.routing import Route",
)


def handler(plan: Plan) -> tuple[str, str]:
    """Return the program and the command that starts it."""
    arguments = ['routes=[Route("/", answer)]', _asgi.lifespan(plan)]
    application = f"app = Starlette({', '.join(filter(None, arguments))})"
    response = f"from starlette.responses import {_asgi.response_class(plan)}"
    imports = [*IMPORTS, response, *_asgi.IMPORTS.get(plan.strategy, ())]
    blocks = [*_asgi.before(plan), _asgi.route(plan, "request"), application]
    return _program.program(plan, "Starlette", imports, *blocks), _asgi.start(plan)
