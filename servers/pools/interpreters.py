"""Interpreters: the loop passes the task to one of several interpreters with separate GILs."""

from asyncio import get_running_loop
from functools import partial

from offload.registry.entries import GuardSettings
from offload.serving.applications import tornado_app
from offload.serving.metrics import task_clock
from offload.serving.pools import pool_workers
from offload.serving.pools.pipe_barrier import PipeBarrier
from offload.serving.protection import guards

HTTP_SERVER = "Tornado"
NEEDS_PYTHON = (3, 14)


def serve(
    task: str,
    port: int,
    *,
    workers: int = 4,
    backlog: int = 1024,
    guard: GuardSettings | None = None,
) -> None:
    """Run the task in one of `workers` interpreters of this process (PEP 734)."""
    from concurrent.futures import InterpreterPoolExecutor  # type: ignore[attr-defined] # 3.14

    # A partial is pickled by name; a bare function would be copied without its module.
    initializer = partial(pool_workers.init_thread, PipeBarrier.create(workers))
    with InterpreterPoolExecutor(workers, "worker", initializer) as executor:
        pool_workers.start(executor, workers, task)

        async def run() -> task_clock.TimedResult:
            return await get_running_loop().run_in_executor(executor, task_clock.call, task)

        protected = guards.protect_threads(workers, guard)
        tornado_app.serve(run, port, backlog, protection=protected)
