"""One event loop: the task runs on the loop, which serves nobody else until the task awaits."""

from offload.serving.applications import tornado_app
from offload.serving.metrics import task_clock

NUMBER = 2
ALSO = {"2_group": "sleep_async_split"}


def serve(task: str, port: int, *, backlog: int = 1024) -> None:
    """Run the task on the event loop itself: there is no executor."""

    async def run() -> task_clock.Timed:
        return await task_clock.acall(task)

    tornado_app.serve_on_loop(task, run, port, backlog)
