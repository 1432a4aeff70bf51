"""What dask's workers do: import the task when they join, and run it for each request.

request -> client.submit -> scheduler -> worker's thread: run(job) -> task, or a process of its own
                                                 |
                                       its token, if it may run once only
"""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import dataclass, replace
from typing import Any

from distributed import get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from offload import tasks
from offload.errors import StartError, UsageError, UserError
from offload.registry import places
from offload.serving.metrics import own_gil, probe, task_clock
from offload.serving.pools import pipe_pool, pool_workers
from offload.serving.pools.dask_cluster import settings, tokens
from pipepool import PipeExecutor


@dataclass(frozen=True)
class Job:
    """How workers run a task.

    `path` is the import folder of a user's task for workers that do not inherit it from the server.
    `timeout` is in seconds, and needs `is_isolated`.
    """

    task: str
    is_idempotent: bool
    is_isolated: bool
    timeout: float | None
    path: str | None = None

    def on_other_machines(self) -> Job:
        """Return this job for workers that the server's machine did not start."""
        return replace(self, path=str(places.task_folder()))


def create_job(task: str, idempotent: str, isolate: str, timeout: float | None) -> Job:
    """Return the job of a server with these settings.

    A timeout needs isolated tasks, because dask cannot end a task without its worker. Raise
    UsageError if `isolate` forbids them.
    """
    if timeout is not None and isolate == "no":
        what = "dask_isolate=no and protect=yes exclude each other"
        raise UsageError(what, "leave dask_isolate out: a task timeout needs it")
    is_isolated = isolate == "yes" or timeout is not None
    probe.facts["dask_isolate"] = "yes" if is_isolated else "no"
    return Job(task, pool_workers.may_run_twice(task, idempotent), is_isolated, timeout)


def run(job: Job) -> task_clock.TimedResult:
    """Run the job's task in this thread of a worker; return its result and times.

    Raise NotStarted if its token is refused, BrokenWorker if its own process died, TimeoutError
    after `timeout`.
    """
    executor = prepare(job, get_worker())
    if not job.is_idempotent:
        tokens.take()
    if executor is None:
        return task_clock.call(job.task)
    future = executor.submit_with(
        task_clock.call, job.task, timeout=job.timeout, idempotent=job.is_idempotent
    )
    return future.result()


class Preparation(WorkerPlugin):
    """Prepares each worker of a cluster, also those that join later.

    `is_own` is true for workers that the server or its agent started: they end with that parent.
    """

    def __init__(self, job: Job, is_own: bool) -> None:
        self.name = f"offload {job}"
        self._job = job
        self._is_own = is_own

    async def setup(self, worker: Any) -> None:
        """Import the task; `report` raises the error, because dask would only log it."""
        if self._is_own:
            _become_child()
        await asyncio.to_thread(_try_to_prepare, self._job, worker)

    def teardown(self, worker: Any) -> None:
        """End the processes of isolated tasks when these have ended.

        dask also calls it when the same job is registered again, by another server or after a loss.
        """
        if (executor := _executors.pop(self._job, None)) is not None:
            executor.shutdown(wait=False)


_errors: dict[Job, UserError] = {}
_executors: dict[Job, PipeExecutor] = {}
_preparing = threading.Lock()
_is_child = False


def report(job: Job) -> pool_workers.WorkerReport:
    """Return the pid and the facts of this worker, or raise the error of its preparation."""
    if (error := _errors.get(job)) is not None:
        raise error
    return pool_workers.report()


def prepare(job: Job, worker: Any) -> PipeExecutor | None:
    """Import the task, and return the processes for isolated ones; start them the first time."""
    if job.path is not None:
        os.environ["TASK_PATH"] = job.path
    tasks.resolve(job.task)
    if not job.is_isolated:
        return None
    with _preparing:
        if (found := _executors.get(job)) is None:
            found = _executors[job] = _start_processes(job, worker.state.nthreads)
        return found


def _start_processes(job: Job, count: int) -> PipeExecutor:
    executor = PipeExecutor(
        count,
        initializer=pipe_pool.initialize,
        initargs=(job.task,),
        preload=[task_clock.__name__],
    )
    try:
        executor.submit(os.getpid).result()  # raises the error of the import
    except BaseException:
        executor.shutdown(wait=False)
        raise
    return executor


def _try_to_prepare(job: Job, worker: Any) -> None:
    try:
        prepare(job, worker)
    except UserError as error:
        _errors[job] = error
    except BaseException as error:  # noqa: BLE001 - the import of a user's module may raise anything
        _errors[job] = StartError(f"a worker did not start: {error!r}")
    else:
        _errors.pop(job, None)


def _become_child() -> None:
    global _is_child
    if not _is_child:
        _is_child = True
        settings.silence()
        own_gil.watch_gil()
        pool_workers.become_child()
