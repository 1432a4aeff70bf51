"""Tornado, which the program itself starts."""

from __future__ import annotations

from offload.studies.advise.handlers import _program
from offload.studies.advise.handlers._program import Plan

PACKAGES = ("tornado",)
IS_APPLICATION = False
COMMAND = "python {app}.py"
POOL = 'self.settings["pool"]'
EVERY_IMPORT = (
    "import signal",
    "from contextlib import suppress",
    "from tornado.iostream import StreamClosedError",
    "from tornado.web import Application, RequestHandler",
)
IMPORTS = {
    "threads": ("from concurrent.futures import ThreadPoolExecutor",),
    "processes": _program.POOL_IMPORTS,
    "pipes": ("from pipepool import PipePool",),
}
FORK_IMPORTS = (
    "import os",
    "from tornado.httpserver import HTTPServer",
    "from tornado.netutil import bind_sockets",
    "from tornado.process import fork_processes",
)
HANDLER = """\
class Answer(RequestHandler):
    running = 0

    async def get(self):
        Answer.running += 1
        try:
            {body}
            self.set_header("Content-Type", "{media_type}")
            with suppress(StreamClosedError):  # the client has left
                await self.finish(body or b"")
        finally:
            Answer.running -= 1

    def compute_etag(self):
        return None  # instead of a hash of each body"""
RUN = {
    "threads": f"body = await asyncio.get_running_loop().run_in_executor({POOL}, {{sent}})",
    "pipes": f"body = await {POOL}.run({{sent}})",
}
WAIT = "await stopped.wait()"
STOP = """\
server.stop()
while Answer.running:  # requests in progress are answered
    await asyncio.sleep(0.05)"""
LISTEN = f"""\
server = application.listen(8000, "127.0.0.1", backlog=1024)
{WAIT}
{STOP}"""
LISTEN_IN_CHILD = f"""\
loop.add_reader(parent, stopped.set)
server = HTTPServer(application)
server.add_sockets(sockets)
{WAIT}
loop.remove_reader(parent)
{STOP}"""
WITH_POOL = {
    "threads": """\
with ThreadPoolExecutor({workers}) as application.settings["pool"]:
    {indented}""",
    "processes": """\
application.settings["pool"] = start_pool()
{listen}
application.settings["pool"].shutdown()""",
    "pipes": """\
async with PipePool({workers}) as application.settings["pool"]:
    {indented}""",
}
MAIN = """\
async def {signature}:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    application = Application([("/", Answer)])
    {serve}"""
FORK = """\
def main():
    sockets = bind_sockets(8000, "127.0.0.1", backlog=1024)
    parent, signals = os.pipe()  # becomes readable when the parent gets a signal or ends
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os.write(signals, b"."))
    fork_processes({processes})  # does not return in the parent, which restarts children
    os.close(signals)
    asyncio.run(serve(sockets, parent))"""
GUARD = 'if __name__ == "__main__":\n    {run}'


def handler(plan: Plan) -> tuple[str, str]:
    """Return the program and the command that starts it."""
    forks = plan.processes > 1
    body = _program.indent(_body(plan), 12)
    blocks = [*plan.wrapper, HANDLER.format(body=body, media_type=plan.media_type)]
    if plan.strategy == "processes":
        blocks.insert(0, _program.START_POOL.format(workers=plan.workers))
    listen = LISTEN_IN_CHILD if forks else LISTEN
    serve = WITH_POOL.get(plan.strategy, "{listen}").format(
        workers=plan.workers, listen=listen, indented=_program.indent(listen, 4)
    )
    serve = _program.indent(serve, 4)
    signature = "serve(sockets, parent)" if forks else "main()"
    blocks.append(MAIN.format(signature=signature, serve=serve))
    if forks:
        blocks.append(FORK.format(processes=plan.processes))
    blocks.append(GUARD.format(run="main()" if forks else "asyncio.run(main())"))
    imports = [*EVERY_IMPORT, *IMPORTS.get(plan.strategy, ()), *(FORK_IMPORTS if forks else ())]
    return _program.program(plan, "Tornado", imports, *blocks), COMMAND.format(app=plan.app)


def _body(plan: Plan) -> str:
    if plan.strategy == "processes":
        return _program.IN_POOL.format(pool=POOL, sent=plan.executor_function)
    return RUN.get(plan.strategy, plan.on_loop).format(sent=plan.executor_function)
