"""Direct calls: run a task in threads and in processes without a server, in a child process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from offload.bench.target import calling_process
from offload.bench.target.calling_process import CallingProcess
from offload.errors import StartError

READY = 15.0  # s until all workers have imported the task
PATIENCE = 60.0  # s beyond the requested time, for a slow task


@dataclass(frozen=True)
class Calls:
    """The result of `count` workers: `rate` in calls/s, and means of one call.

    `wall_s` is its wall time, `cpu_s` its CPU time and `queued_s` its wait for a CPU, in s.
    `switches` is the number of context switches. `gil_enabled` is the state of the GIL afterwards,
    in the process of the threads.
    """

    rate: float
    wall_s: float
    cpu_s: float
    queued_s: float
    switches: float
    gil_enabled: bool = True


class Direct:
    """A running process that calls a task on request; `facts` describe it."""

    def __init__(self, process: CallingProcess) -> None:
        self._process = process
        self.facts: Mapping[str, object] = process.facts

    def call(self, kind: str, count: int, seconds: float) -> Calls:
        """Call the task in `count` threads, processes or interpreters for `seconds`.

        Raise StartError if the process ends, or if interpreters cannot be started.
        """
        result = self._process.request(f"{kind} {count} {seconds}", seconds + PATIENCE)
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
