"""Pipes: like processes, but the loop itself exchanges messages with each worker's socket pair."""

from offload.registry.entries import GuardSettings
from offload.serving.applications import tornado_app
from offload.serving.metrics import task_clock
from offload.serving.pools import pipe_pool, pool_workers
from offload.serving.protection import guards

HTTP_SERVER = "Tornado"


def serve(
    task: str,
    port: int,
    *,
    workers: int = 4,
    backlog: int = 1024,
    idempotent: str = "",
    guard: GuardSettings | None = None,
) -> None:
    """Run the task in one of `workers` processes, all started before the server listens."""
    pool = pipe_pool.Pool(workers, pipe_pool.initialize, (task,), preload=[task_clock.__name__])
    retry = pool_workers.may_run_twice(task, idempotent)
    timeout = guards.task_timeout_s(guard)

    async def run() -> task_clock.TimedResult:
        return await pool.run(task_clock.call, task, idempotent=retry, timeout=timeout)

    tornado_app.serve(run, port, backlog, pool, guards.protect_processes(workers, guard))
