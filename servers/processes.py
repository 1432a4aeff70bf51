"""Processes: the loop hands the task to a ProcessPoolExecutor; each worker has a GIL of its own."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from offload.serving.applications import tornado_app
from offload.serving.pools import recovery

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

    def build() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(workers, context, recovery.begin, (context.Barrier(workers),))

    with recovery.Pool(build, workers, task) as pool:
        pool.start()
        tornado_app.serve(task, port, backlog, pool)
