"""Parts of the programs for ASGI: the command, and the routes with their lifespan."""

from __future__ import annotations

from offload.studies.advise.handlers import _program
from offload.studies.advise.handlers._program import Plan

SERVER = ("uvicorn", "uvloop", "httptools")
COMMAND = "uvicorn {app}:app --port 8000 --loop uvloop --http httptools --no-access-log"
LIFESPAN = """\
@asynccontextmanager
async def lifespan(app):
    {entered}"""
THREADS_ROUTE = """\
def answer({parameter}):
    return {response}"""
ROUTE = """\
async def answer({parameter}):
    {body}
    return {response}"""
# uvicorn ends its process with the signal that it received, so exit handlers do not run.
CLEANUP = "rmtree(get_temp_dir())  # uvicorn exits without removing multiprocessing's folder"
CLEANUP_IMPORTS = ("from multiprocessing.util import get_temp_dir", "from shutil import rmtree")
ENTERED = {
    "threads": """\
# Starlette calls each `def` route in one of these threads.
to_thread.current_default_thread_limiter().total_tokens = {workers}
yield""",
    "processes": """\
app.state.pool = start_pool()
yield
app.state.pool.shutdown()
{cleanup}""",
    "pipes": """\
async with PipePool({workers}) as app.state.pool:
    yield""",
}
IMPORTS = {
    "threads": ("from contextlib import asynccontextmanager", "from anyio import to_thread"),
    "processes": (
        "import asyncio",
        "from contextlib import asynccontextmanager",
        *_program.POOL_IMPORTS,
        *CLEANUP_IMPORTS,
    ),
    "pipes": ("from contextlib import asynccontextmanager", "from pipepool import PipePool"),
}


def start(plan: Plan) -> str:
    """Return the command that starts the program.

    It requires uvloop, because uvicorn's workers on asyncio do not set TCP_NODELAY
    (Kludex/uvicorn#3149).
    """
    workers = f" --workers {plan.processes}" if plan.processes > 1 else ""
    return COMMAND.format(app=plan.app) + workers


def before(plan: Plan) -> list[str]:
    """Return the blocks before the application: `call()`, the pool and the lifespan, if needed."""
    if plan.strategy not in ENTERED:
        return []
    entered = ENTERED[plan.strategy].format(workers=plan.workers, cleanup=CLEANUP)
    entered = _program.indent(entered, 4)
    pool = [_program.START_POOL.format(workers=plan.workers)] * (plan.strategy == "processes")
    return [*plan.wrapper, *pool, LIFESPAN.format(entered=entered)]


def lifespan(plan: Plan) -> str:
    """Return the argument of the application for the lifespan; empty if there is none."""
    return "lifespan=lifespan" if plan.strategy in ENTERED else ""


def route(plan: Plan, parameter: str = "") -> str:
    """Return the function of the route; its response is 500 if the task raises."""
    if plan.strategy == "threads":
        response = _response(plan, f"{plan.executor_function}()")
        return THREADS_ROUTE.format(parameter=parameter, response=response)
    if plan.strategy == "pipes":
        body = f"body = await app.state.pool.run({plan.executor_function})"
    elif plan.strategy == "processes":
        body = _program.IN_POOL.format(pool="app.state.pool", sent=plan.executor_function)
    else:
        body = plan.on_loop
    response = _response(plan, "body")
    return ROUTE.format(parameter=parameter, body=_program.indent(body, 4), response=response)


def response_class(plan: Plan) -> str:
    """Return the class of Starlette, which FastAPI has, too, of the response."""
    return "Response" if plan.function.is_json else "PlainTextResponse"


def _response(plan: Plan, body: str) -> str:
    if plan.function.is_json:
        return f'Response({body}, media_type="{plan.media_type}")'
    return f'PlainTextResponse({body} or b"")'
