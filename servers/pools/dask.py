"""dask: the loop submits the task to a dask cluster: processes here, or on other machines."""

from offload.registry.entries import GuardSettings

HTTP_SERVER = "Tornado"
NEEDS = ("dask", "distributed")
STRATEGY = "processes"


def serve(
    task: str,
    port: int,
    *,
    workers: int = 4,
    backlog: int = 1024,
    scheduler: str = "",
    ssh: str = "",
    dask_isolate: str = "",
    idempotent: str = "",
    guard: GuardSettings | None = None,
) -> None:
    """Run the task in one of `workers` processes, all started before the server listens."""
    from offload.serving.applications import tornado_app
    from offload.serving.metrics import task_clock
    from offload.serving.pools.dask_cluster import cluster, worker
    from offload.serving.protection import guards

    job = worker.create_job(task, idempotent, dask_isolate, guards.task_timeout_s(guard))
    protected = guards.protect_processes(workers, guard)
    pool = cluster.Cluster(job, workers, scheduler, ssh, protected.resize)

    async def run() -> task_clock.TimedResult:
        async with pool.request() as client:
            future = client.submit(worker.run, pool.job, pure=False, retries=0)
            return pool.with_local_end(await future)

    tornado_app.serve(run, port, backlog, pool, protected)
