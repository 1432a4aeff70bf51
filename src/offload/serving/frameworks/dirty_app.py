"""gunicorn's dirty workers: the application that runs tasks in them, and the one that calls it."""

from __future__ import annotations

import math
import os
import time
from typing import Any

from gunicorn.dirty import DirtyApp, DirtyError, close_dirty_client, get_dirty_client

from offload import tasks
from offload.serving.applications import wsgi
from offload.serving.lifecycle import readiness, worker_ready
from offload.serving.metrics import task_clock
from offload.tasks import TaskFailed

NAME = f"{__name__}:TaskApp"
SETTINGS = {
    # The dirty arbiter's pid file has this name. It must be unique: an arbiter kills the
    # process in an existing file of the same name as an orphan.
    "proc_name": f"offload-{os.getpid()}",
    "on_dirty_starting": lambda _: worker_ready.become_parent(),
}

UNKNOWN = (math.nan,) * 4  # the times of a task whose worker died


class TaskApp(DirtyApp):
    """The task, in a dirty worker."""

    def init(self) -> None:
        """Import the task, and report."""
        self._task = os.environ[worker_ready.TASK]
        tasks.resolve(self._task)
        worker_ready.report()

    def pid(self) -> int:
        """Return the process of this worker."""
        return os.getpid()

    def run(self) -> list[Any]:
        """Run the task; return its body or None, its failure or None, its times and GIL state."""
        outcome, row, gil = task_clock.call(self._task)
        if isinstance(outcome, TaskFailed):
            return [None, str(outcome), row, gil]
        return [outcome, None, row, gil]


def application(workers: int) -> wsgi.Application:
    """Create the application of the HTTP worker, once all dirty workers have responded."""
    until = time.monotonic() + readiness.LIMIT
    pids: set[int] = set()
    while len(pids) < workers and time.monotonic() < until:
        try:
            pids.add(get_dirty_client(timeout=readiness.LIMIT).execute(NAME, "pid"))
        except DirtyError:  # the first worker does not listen yet
            time.sleep(worker_ready.POLL)
    close_dirty_client()
    return wsgi.Application(worker_ready.report(), _call)


def _call(task: str) -> task_clock.TimedResult:
    """Run the task in a dirty worker, and wait for it in this thread."""
    try:
        body, failure, row, gil = get_dirty_client().execute(NAME, "run")
    except DirtyError as error:
        return TaskFailed(f"{task}: {error}"), (time.monotonic(), *UNKNOWN), None
    return TaskFailed(failure) if body is None else body, tuple(row), gil
