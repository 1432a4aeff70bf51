"""Processes: the loop passes the task to a ProcessPoolExecutor; each worker has its own GIL."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from offload.registry.entries import GuardSettings
from offload.serving.applications import tornado_app
from offload.serving.metrics import task_clock
from offload.serving.pools import pool_workers, recovery
from offload.serving.protection import guards

HTTP_SERVER = "Tornado"
NUMBER = 4


def serve(
    task: str,
    port: int,
    *,
    workers: int = 4,
    backlog: int = 1024,
    start_method: str = "forkserver",
    idempotent: str = "",
    guard: GuardSettings | None = None,
) -> None:
    """Run the task in one of `workers` processes, all started before the server listens."""
    context = get_context(start_method)
    context.set_forkserver_preload([recovery.__name__])  # imported once, not by every worker

    def create() -> ProcessPoolExecutor:
        barrier = context.Barrier(workers)  # each worker imports the task before the server listens
        return ProcessPoolExecutor(
            workers, context, initializer=recovery.init_process, initargs=(barrier,)
        )

    # If one worker crashes, the whole ProcessPoolExecutor breaks: this pool recreates it.
    with recovery.Pool(create, workers, task) as pool:
        pool.start()
        retry = pool_workers.may_run_twice(task, idempotent)
        timeout = guards.task_timeout_s(guard)

        async def run() -> task_clock.TimedResult:
            return await pool.run(task_clock.call, task, idempotent=retry, timeout=timeout)

        tornado_app.serve(run, port, backlog, pool, guards.protect_processes(workers, guard))
