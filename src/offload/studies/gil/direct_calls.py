"""Direct calls: run a task in threads and in processes without a server, in a child process.

The rate of several workers divided by that of one thread is their speed-up.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from offload.engine import calling_process
from offload.engine.calling_process import CallingProcess
from offload.errors import StartError

ROUNDS = 3  # each measures one thread, then each kind; a median of 3 ignores one disturbed round
SECONDS = 0.7  # s of each measurement, which has at least CALLS calls
CALLS = 2
START = 3.0  # s until all workers have imported the task; a guess
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


@dataclass(frozen=True)
class SpeedUp:
    """The figures of workers of one kind: medians over the rounds.

    `ratio` is their rate divided by that of one thread, `switches` the context switches per call.
    `gil_enabled` is the state of the GIL after the calls, in the process that runs the threads.
    """

    ratio: float
    switches: float
    gil_enabled: bool


def speed_ups(running: Direct, workers: int, kinds: Sequence[str]) -> dict[str, SpeedUp]:
    """Measure kinds of workers ("threads", "processes" or "interpreters"), interleaved.

    Raise StartError for a kind that the task or this Python does not support.
    """
    alone: list[float] = []
    calls: dict[str, list[Calls]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        alone.append(running.call("threads", 1, SECONDS).rate)
        for kind in kinds:
            calls[kind].append(running.call(kind, workers, SECONDS))
    return {kind: _median(found, statistics.median(alone)) for kind, found in calls.items()}


def least_s(kinds: int, call_s: float) -> float:
    """Return the time in s that `speed_ups` takes at least, if a call takes `call_s`."""
    return START + ROUNDS * (1 + kinds) * max(SECONDS, CALLS * call_s)


def _median(found: Sequence[Calls], alone: float) -> SpeedUp:
    return SpeedUp(
        statistics.median(calls.rate for calls in found) / alone,
        statistics.median(calls.switches for calls in found),
        found[-1].gil_enabled,
    )
