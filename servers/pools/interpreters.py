"""Interpreters: the loop hands the task to one of several interpreters, each with its own GIL."""

from functools import partial

from offload.serving.applications import tornado_app
from offload.serving.pools import pool_workers
from offload.serving.pools.pipe_barrier import Turnstile

NEEDS_PYTHON = (3, 14)


def serve(task: str, port: int, *, workers: int = 4, backlog: int = 1024) -> None:
    """Run the task in one of `workers` interpreters of this process (PEP 734)."""
    from concurrent.futures import InterpreterPoolExecutor  # type: ignore[attr-defined] # 3.14

    # A partial is pickled by its name: a bare function would be copied without its module.
    begin = partial(pool_workers.share, Turnstile.of(workers))
    with InterpreterPoolExecutor(workers, "worker", begin) as executor:
        pool_workers.start(executor, workers, task)
        tornado_app.serve(task, port, backlog, executor)
