"""Pipes: as processes, but the loop itself talks to each worker, over a socket pair of its own."""

from offload.serving.applications import tornado_app
from offload.serving.pools import pipe_pool


def serve(task: str, port: int, *, workers: int = 4, backlog: int = 1024) -> None:
    """Run the task in one of `workers` processes, all begun before the server listens."""
    pool = pipe_pool.Pool(
        workers, pipe_pool.begin, (task,), preload=["offload.serving.metrics.task_clock"]
    )
    tornado_app.serve(task, port, backlog, pool)
