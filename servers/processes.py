"""Processes: the loop hands the task to a ProcessPoolExecutor; each worker has a GIL of its own."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from servers import _tornado, _workers

NUMBER = 4


def serve(
    task: str,
    port: int,
    *,
    workers: int = 4,
    backlog: int = 1024,
    start_method: str = "forkserver",
) -> None:
    """Run the task in one of `workers` processes, all begun before the server listens."""
    context = get_context(start_method)
    barrier = context.Barrier(workers)
    with ProcessPoolExecutor(workers, context, _workers.begin, (barrier,)) as executor:
        _workers.start(executor, workers, task)
        _tornado.serve(task, port, backlog, executor)
