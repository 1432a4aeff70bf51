"""Threads: the loop hands the task to a ThreadPoolExecutor and goes on serving; one GIL for all."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from offload.servers import _tornado, _workers

NUMBER = 3


def serve(task: str, port: int, *, workers: int = 4, backlog: int = 1024) -> None:
    """Run the task in one of `workers` threads of this process."""
    with ThreadPoolExecutor(workers, "worker", _workers.share, (Barrier(workers),)) as executor:
        _workers.start(executor, workers, task)
        _tornado.serve(task, port, backlog, executor)
