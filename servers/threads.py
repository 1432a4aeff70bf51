"""Threads: the loop passes the task to a ThreadPoolExecutor and keeps serving; one shared GIL."""

from asyncio import get_running_loop
from concurrent.futures import ThreadPoolExecutor

from offload.registry.entries import GuardSettings
from offload.serving.lifecycle import prefork
from offload.serving.metrics import task_clock

HTTP_SERVER = "Tornado"
NUMBER = 3


def serve(
    task: str,
    port: int,
    *,
    workers: int = 4,
    processes: int = 1,
    backlog: int = 1024,
    reuse_port: str = "no",
    guard: GuardSettings | None = None,
) -> None:
    """Run the task in one of `workers` threads of each of `processes`, which share the port."""

    def create() -> ThreadPoolExecutor:
        return ThreadPoolExecutor(workers, "worker")

    async def run(executor: ThreadPoolExecutor) -> task_clock.TimedResult:
        return await get_running_loop().run_in_executor(executor, task_clock.call, task)

    shared = prefork.Port(port, backlog, processes, reuse_port)
    prefork.serve_threads(task, create, run, workers, shared, guard)
