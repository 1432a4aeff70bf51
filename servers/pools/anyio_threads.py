"""anyio's threads: as Starlette runs what is not `async`, with its cap of 40 at a time."""

NEEDS = ("anyio",)


def serve(task: str, port: int, *, workers: int = 40, backlog: int = 1024) -> None:
    """Run the task in a thread of anyio's; all share `workers` tokens, which are 40 by default."""
    from anyio.to_thread import run_sync

    from offload.serving.applications import tornado_app
    from offload.serving.metrics import task_clock
    from offload.serving.pools import anyio_threads

    async def run() -> task_clock.Timed:
        timed: task_clock.Timed = await run_sync(task_clock.call, task)
        return timed

    tornado_app.serve(run, port, backlog, anyio_threads.Threads(task, workers))
