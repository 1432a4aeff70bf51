"""One event loop: the task runs on the loop and blocks all other requests until it awaits."""

from offload.registry.entries import GuardSettings
from offload.serving.applications import tornado_app
from offload.serving.metrics import task_clock
from offload.serving.protection import guards

HTTP_SERVER = "Tornado"
NUMBER = 2
SERVES = "tornado"
ALSO = {"2_group": "sleep_async_split"}


def serve(task: str, port: int, *, backlog: int = 1024, guard: GuardSettings | None = None) -> None:
    """Run the task on the event loop itself: there is no executor."""

    async def run() -> task_clock.TimedResult:
        return await task_clock.acall(task)

    tornado_app.serve_on_loop(task, run, port, backlog, guards.protect_loop(task, guard))
