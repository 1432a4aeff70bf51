"""Starlette, served by uvicorn."""

from __future__ import annotations

from offload.studies.advise.handlers import _asgi, _program
from offload.studies.advise.handlers._program import Plan

PACKAGES = ("starlette>=0.40", *_asgi.SERVER)
IMPORTS = (
    "from starlette.applications import Starlette",
    "from starlette.responses import PlainTextResponse",
    "from starlette.routing import Route",
)


def handler(plan: Plan) -> tuple[str, str]:
    """Return the program and the command that starts it."""
    arguments = ['routes=[Route("/", answer)]', _asgi.lifespan(plan)]
    application = f"app = Starlette({', '.join(filter(None, arguments))})"
    imports = [*IMPORTS, *_asgi.IMPORTS.get(plan.strategy, ())]
    blocks = [*_asgi.before(plan), _asgi.route(plan, "request"), application]
    return _program.program(plan, "Starlette", imports, *blocks), _asgi.start(plan)
