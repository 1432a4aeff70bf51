"""Django (ASGI), served by uvicorn."""

from __future__ import annotations

from offload.studies.advise.handlers import _asgi, _django, _program
from offload.studies.advise.handlers._program import Plan

PACKAGES = (_django.PACKAGE, *_asgi.SERVER)
NOTE = (
    "The rates of this answer are Tornado's. Django needs more CPU for each request: if a call "
    "needs less than 1 ms of CPU, the rate of Django may be 30 % lower."
)
IMPORTS = (
    *_django.IMPORTS,
    "import django",
    "from django.core.handlers.asgi import ASGIHandler",
)
POOL_IMPORTS = {
    "threads": ("from concurrent.futures import ThreadPoolExecutor",),
    "processes": (*_program.POOL_IMPORTS, *_asgi.CLEANUP_IMPORTS),
    "pipes": ("from pipepool import PipePool",),
}
VIEW = """\
async def answer(request):
    {body}
    {response}"""
HANDLER = """\
class Handler(ASGIHandler):
    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await super().__call__(scope, receive, send)
        # Django would start a thread for each request. Only synchronous views, middleware and
        # queries need it: if you add one, use get_asgi_application() instead of this class.
        await self.handle(scope, receive, send)"""
APPLICATION = """\
{urls}
django.setup()
django_app = Handler()


async def app(scope, receive, send):
    if scope["type"] != "lifespan":  # Django handles no lifespan events
        return await django_app(scope, receive, send)
    {opened}
    await send({{"type": "lifespan.startup.complete"}})
    await receive()
    {closed}
    await send({{"type": "lifespan.shutdown.complete"}})"""
POOL = {"threads": "pool = ThreadPoolExecutor({workers})", "pipes": "pool = PipePool({workers})"}
OPENED = {
    "threads": "await receive()",
    "processes": "global pool\nawait receive()\npool = start_pool()",
    "pipes": "await receive()\nawait pool.start()",
}
CLOSED = {
    "threads": "pool.shutdown()",
    "processes": f"pool.shutdown()\n{_asgi.CLEANUP}",
    "pipes": "await pool.close()",
}
RUN = {
    "threads": "body = await asyncio.get_running_loop().run_in_executor(pool, {sent})",
    "pipes": "body = await pool.run({sent})",
}


def handler(plan: Plan) -> tuple[str, str]:
    """Return the program and the command that starts it."""
    pool = POOL.get(plan.strategy, "").format(workers=plan.workers)
    blocks = ["\n\n".join(filter(None, [_django.SETTINGS, pool])), *plan.wrapper]
    if plan.strategy == "processes":
        blocks.append(_program.START_POOL.format(workers=plan.workers))
    response = _django.RESPONSE.format(media_type=plan.media_type)
    blocks.append(VIEW.format(body=_program.indent(_body(plan), 4), response=response))
    blocks += [HANDLER, _application(plan)]
    imports = [*IMPORTS, *POOL_IMPORTS.get(plan.strategy, ())]
    # Otherwise uvicorn would serve requests even if the pool does not start.
    lifespan = " --lifespan on" if plan.is_executed else ""
    return _program.program(plan, "Django", imports, *blocks), _asgi.start(plan) + lifespan


def _body(plan: Plan) -> str:
    if plan.strategy == "processes":
        return "global pool\n" + _program.IN_POOL.format(pool="pool", sent=plan.executor_function)
    return RUN.get(plan.strategy, plan.on_loop).format(sent=plan.executor_function)


def _application(plan: Plan) -> str:
    if not plan.is_executed:
        return f"{_django.URLS}\ndjango.setup()\napp = Handler()"
    opened = _program.indent(OPENED[plan.strategy], 4)
    closed = _program.indent(CLOSED[plan.strategy], 4)
    return APPLICATION.format(urls=_django.URLS, opened=opened, closed=closed)
