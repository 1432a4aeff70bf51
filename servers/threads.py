"""Threads: the loop passes the task to a ThreadPoolExecutor and keeps serving; one shared GIL."""

from asyncio import get_running_loop
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Unpack

from offload.registry.protection import Settings
from offload.serving.applications import tornado_app
from offload.serving.metrics import task_clock
from offload.serving.pools import pool_workers
from offload.serving.protection import guards

NUMBER = 3


def serve(
    task: str, port: int, *, workers: int = 4, backlog: int = 1024, **protection: Unpack[Settings]
) -> None:
    """Run the task in one of `workers` threads of this process."""
    barrier = Barrier(workers)  # each worker imports the task before the server listens
    with ThreadPoolExecutor(
        workers, "worker", initializer=pool_workers.init_thread, initargs=(barrier,)
    ) as executor:
        pool_workers.start(executor, workers, task)

        async def run() -> task_clock.TimedResult:
            return await get_running_loop().run_in_executor(executor, task_clock.call, task)

        tornado_app.serve(run, port, backlog, protection=guards.of_threads(workers, protection))
