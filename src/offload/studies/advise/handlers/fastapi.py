"""FastAPI, served by uvicorn."""

from __future__ import annotations

from offload.studies.advise.handlers import _asgi, _program
from offload.studies.advise.handlers._program import Plan

PACKAGES = ("fastapi", *_asgi.SERVER)


def handler(plan: Plan) -> tuple[str, str]:
    """Return the program and the command that starts it."""
    application = f"app = FastAPI({_asgi.lifespan(plan)})"
    route = f'@app.get("/")\n{_asgi.route(plan)}'
    response = f"from fastapi.responses import {_asgi.response_class(plan)}"
    imports = ["from fastapi import FastAPI", response, *_asgi.IMPORTS.get(plan.strategy, ())]
    blocks = [*_asgi.before(plan), application, route]
    return _program.program(plan, "FastAPI", imports, *blocks), _asgi.start(plan)
