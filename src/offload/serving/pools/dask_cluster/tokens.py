"""One-time tokens: a task that is not idempotent begins once, however often dask starts it.

dask starts a task again if the worker that has its result ends before the result is fetched, even
with `retries=0` and `allowed-failures: 0`. So the worker first takes the task's token:

worker                              scheduler
run(job) -- key, worker's address -->  granted once for each key; kept until dask forgets the key
         <----------- "" or why not -

The scheduler outlives the worker, so a second start is refused. A new scheduler does not know the
key, and refuses. A worker that dies between the token and the task's end has used the token: the
request ends with an error which states that the task may have run.
"""

from __future__ import annotations

import weakref
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from distributed import get_worker
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.utils import sync

OPERATION = "offload_take_token"
TIMEOUT = 10.0  # s for the scheduler's reply
ALREADY_STARTED = (
    "the worker that ran the task ended before its result was fetched: "
    "the task is not repeated because it is not idempotent"
)


class NotStarted(BrokenProcessPool):
    """A worker was not allowed to start a task."""


class Tokens(SchedulerPlugin):
    """Let a scheduler grant the tokens of its tasks."""

    name = "offload-tokens"
    idempotent = True  # several servers may use one scheduler

    async def start(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._taken: weakref.WeakSet[Any] = weakref.WeakSet()  # tasks that dask has not forgotten
        scheduler.handlers[OPERATION] = self.grant

    def grant(self, key: str, worker: str) -> str:
        """Return an empty string if a worker may start the task, else why not."""
        task = self._scheduler.tasks.get(key)
        if task is None:
            return "the request has ended, or the scheduler is a new one"
        if task in self._taken:
            return ALREADY_STARTED
        if task.processing_on is None or task.processing_on.address != worker:
            return "the scheduler has assigned the task to another worker"
        self._taken.add(task)
        return ""


def take() -> None:
    """Take the token of the task that this thread of a worker is about to run.

    Raise NotStarted if that is refused, or if the scheduler does not reply: the task must not run.
    """
    worker = get_worker()
    key = worker.get_current_task()
    ask = getattr(worker.scheduler, OPERATION)
    try:
        refused = sync(
            worker.loop, ask, key=key, worker=worker.contact_address, callback_timeout=TIMEOUT
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, the task must not run
        refused = f"the scheduler did not grant the task's start ({error or type(error).__name__})"
    if refused:
        raise NotStarted(refused)
