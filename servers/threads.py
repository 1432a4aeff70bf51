"""Threads: the loop hands the task to a ThreadPoolExecutor and goes on serving; one GIL for all."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from offload.serving.applications import tornado_app
from offload.serving.pools import pool_workers

NUMBER = 3


def serve(task: str, port: int, *, workers: int = 4, backlog: int = 1024) -> None:
    """Run the task in one of `workers` threads of this process."""
    with ThreadPoolExecutor(workers, "worker", pool_workers.share, (Barrier(workers),)) as executor:
        pool_workers.start(executor, workers, task)
        tornado_app.serve(task, port, backlog, executor)
