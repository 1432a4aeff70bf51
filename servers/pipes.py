"""Pipes: as processes, but the loop itself talks to each worker, over a socket pair of its own."""

from offload.servers import _pool, _tornado


def serve(task: str, port: int, *, workers: int = 4, backlog: int = 1024) -> None:
    """Run the task in one of `workers` processes, all begun before the server listens."""
    pool = _pool.Pool(workers, _pool.begin, (task,), preload=["offload.servers._clock"])
    _tornado.serve(task, port, backlog, pool)
