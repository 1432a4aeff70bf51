"""Prefork: several processes with one event loop each, which share one listening socket."""

EXTERNAL_WORKERS = "tornado"


def serve(task: str, port: int, *, processes: int = 4, backlog: int = 1024) -> None:
    """Run the task on the event loop of one of `processes`; the others are not blocked."""
    from offload.serving.lifecycle import prefork
    from offload.serving.metrics import task_clock

    async def run() -> task_clock.TimedResult:
        return await task_clock.acall(task)

    prefork.serve(task, run, port, backlog, processes)
