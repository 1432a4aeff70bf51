"""Prefork: several processes of one event loop each, which all accept from one listening socket."""

FOREIGN = "tornado"


def serve(task: str, port: int, *, processes: int = 4, backlog: int = 1024) -> None:
    """Run the task on the event loop of one of `processes`, which holds nobody in the others."""
    from offload.serving.lifecycle import prefork
    from offload.serving.metrics import task_clock

    async def run() -> task_clock.Timed:
        return await task_clock.acall(task)

    prefork.serve(task, run, port, backlog, processes)
