"""Parts of the programs for WSGI, in which a thread of a gunicorn process runs each request."""

from __future__ import annotations

import math

from offload.studies.advise.handlers._program import Plan

SERVER = ("gunicorn",)
COMMAND = "gunicorn --bind 127.0.0.1:8000 --workers {workers} --threads {threads} {app}:app"
LOOP = """\
# WSGI has no event loop: all requests of a process share this one, each from a thread of its own.
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()"""
REMARKS = {
    "processes": "# gunicorn's processes are the workers: a pool behind them would only add a hop.",
    "pipes": """\
# gunicorn's processes are the workers. A PipeExecutor behind them would only add a hop: each
# request occupies its thread in any case, and each process has a GIL of its own already.""",
}


def start(plan: Plan) -> str:
    """Return the command that starts the program, with the processes and threads of the plan."""
    workers = plan.workers if plan.strategy in ("processes", "pipes") else plan.processes
    threads = plan.workers if plan.strategy == "threads" else 1
    if _has_loop(plan):
        threads = math.ceil(plan.users / workers)
    return COMMAND.format(workers=workers, threads=threads, app=plan.app)


def imports(plan: Plan) -> list[str]:
    """Return the imports of `before`."""
    return ["import threading"] if _has_loop(plan) else []


def before(plan: Plan) -> list[str]:
    """Return the blocks before the application: an event loop if coroutines share one."""
    return [LOOP] if _has_loop(plan) else []


def body(plan: Plan) -> str:
    """Return the lines that run the function to completion."""
    remark = f"{REMARKS[plan.strategy]}\n" if plan.strategy in REMARKS else ""
    if _has_loop(plan):
        called = f"asyncio.run_coroutine_threadsafe({plan.call}, loop).result()"
    else:
        called = f"asyncio.run({plan.call})" if plan.function.is_coroutine else plan.call
    return f"{remark}body = {plan.result(called)}"


def _has_loop(plan: Plan) -> bool:
    """Whether the requests of a process run their coroutines on one shared event loop."""
    return plan.function.is_coroutine and not plan.is_executed
