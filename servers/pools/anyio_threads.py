"""anyio's threads: as Starlette runs functions that are not `async`, at most 40 at a time."""

from offload.registry.entries import GuardSettings

HTTP_SERVER = "Tornado"
NEEDS = ("anyio",)
STRATEGY = "threads"


def serve(
    task: str,
    port: int,
    *,
    workers: int = 40,
    backlog: int = 1024,
    guard: GuardSettings | None = None,
) -> None:
    """Run the task in one of `workers` threads (anyio's default: 40)."""
    from anyio.to_thread import run_sync

    from offload.serving.applications import tornado_app
    from offload.serving.metrics import task_clock
    from offload.serving.pools import anyio_threads
    from offload.serving.protection import guards

    async def run() -> task_clock.TimedResult:
        timed: task_clock.TimedResult = await run_sync(task_clock.call, task)
        return timed

    protected = guards.protect_threads(workers, guard)
    tornado_app.serve(run, port, backlog, anyio_threads.Threads(task, workers), protected)
