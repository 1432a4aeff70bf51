"""Pipes: as processes, but the loop itself talks to each worker, over a socket pair of its own."""

from executors.pipes import PipePool
from servers import _tornado, _workers


def serve(task: str, port: int, *, workers: int = 4, backlog: int = 1024) -> None:
    """Run the task in one of `workers` processes, all begun before the server listens."""
    pool = PipePool(workers, _workers.begin_alone, (task,), preload=["servers._clock"])
    _tornado.serve(task, port, backlog, pool)
