"""Interpreters: the loop hands the task to one of several interpreters, each with its own GIL."""

from asyncio import get_running_loop
from functools import partial

from offload.serving.applications import tornado_app
from offload.serving.metrics import task_clock
from offload.serving.pools import pool_workers
from offload.serving.pools.pipe_barrier import PipeBarrier

NEEDS_PYTHON = (3, 14)


def serve(task: str, port: int, *, workers: int = 4, backlog: int = 1024) -> None:
    """Run the task in one of `workers` interpreters of this process (PEP 734)."""
    from concurrent.futures import InterpreterPoolExecutor  # type: ignore[attr-defined] # 3.14

    # A partial is pickled by its name: a bare function would be copied without its module.
    at_start = partial(pool_workers.share, PipeBarrier.of(workers))
    with InterpreterPoolExecutor(workers, "worker", at_start) as executor:
        pool_workers.start(executor, workers, task)

        async def run() -> task_clock.Timed:
            return await get_running_loop().run_in_executor(executor, task_clock.call, task)

        tornado_app.serve(run, port, backlog)
