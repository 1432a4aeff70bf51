"""Direct calls: run a task in threads and in processes without a server, in a child process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from offload.bench.target import calling_process
from offload.bench.target.calling_process import CallingProcess
from offload.errors import StartError

READY = 15.0  # s until all workers have imported the task
MARGIN = 60.0  # s by which the timeout is longer than the requested time, for a slow task


@dataclass(frozen=True)
class Calls:
    """The `rate` of all workers in calls/s, and the means of one call.

    `wall_s` is the wall time of a call, `cpu_s` its CPU time and `queued_s` its wait for a CPU, in
    s. `switches` is the number of its context switches. `gil_enabled` is the state of the GIL after
    the calls, in the process that runs the threads.
    """

    rate: float
    wall_s: float
    cpu_s: float
    queued_s: float
    switches: float
    gil_enabled: bool = True


class Direct:
    """A running process that calls a task on request; `facts` is its ready line."""

    def __init__(self, process: CallingProcess) -> None:
        self._process = process
        self.facts: Mapping[str, object] = process.facts

    def call(self, kind: str, count: int, seconds: float) -> Calls:
        """Call the task in `count` threads, processes or interpreters for `seconds`.

        Raise StartError if the process ends, or if interpreters cannot be started.
        """
        result = self._process.request(f"{kind} {count} {seconds}", seconds + MARGIN)
        if "error" in result:
            raise StartError(str(result["error"]))
        return Calls(**result)


@contextmanager
def direct(
    task: str, workers: int, python: str | None, path: str | None, environment: Mapping[str, str]
) -> Iterator[Direct]:
    """Start a process that calls `task` in up to `workers` workers; raise StartError."""
    with calling_process.start(
        "offload.serving.direct_calls",
        task,
        str(workers),
        python=python,
        path=path,
        environment=environment,
        ready_s=READY,
    ) as running:
        yield Direct(running)
