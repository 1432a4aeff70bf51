"""pebble: like processes, but with pebble's pool, which replaces a worker that dies."""

from offload.registry.entries import GuardSettings

HTTP_SERVER = "Tornado"
NEEDS = ("pebble",)
STRATEGY = "processes"


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
    from offload.serving.applications import tornado_app
    from offload.serving.metrics import task_clock
    from offload.serving.pools import pebble_pool, pool_workers
    from offload.serving.protection import guards

    retry = pool_workers.may_run_twice(task, idempotent)
    timeout = guards.task_timeout_s(guard)
    with pebble_pool.Pool(workers) as pool:
        pool.start(task)

        async def run() -> task_clock.TimedResult:
            return await pool.run(task_clock.call, task, idempotent=retry, timeout=timeout)

        protected = guards.protect_processes(workers, guard)
        tornado_app.serve(run, port, backlog, protection=protected)
