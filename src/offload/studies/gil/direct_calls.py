"""Direct calls: run a task in threads and in processes without a server, in a child process.

The rate of several workers divided by that of one thread is their speed-up.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from offload.engine import calling_process
from offload.engine.calling_process import CallingProcess
from offload.errors import StartError, kind_of

ROUNDS = 3  # each measures one thread, then each kind; a median of 3 ignores one disturbed round
SECONDS = 0.7  # s of each measurement, which has at least one call of each worker
START = 3.0  # s until all workers have imported the task; a guess
MARGIN = 60.0  # s by which the timeout is longer than the requested time, for a slow task


@contextmanager
def direct(
    task: str, python: str | None, path: str | None, environment: Mapping[str, str]
) -> Iterator[CallingProcess]:
    """Start a process that calls `task` on request; raise StartError."""
    with calling_process.start(
        "offload.serving.task_probe",
        task,
        python=python,
        path=path,
        environment=environment,
        ready_s=calling_process.IMPORT_S,
    ) as running:
        yield running


def call(running: CallingProcess, kind: str, count: int, seconds: float) -> Mapping[str, Any]:
    """Call the task in `count` threads, processes or interpreters for `seconds`.

    Return their `rate` in calls/s, the context `switches` of a call, and `gil_enabled`. Raise
    StartError if the process ends or a call fails, MachineError if a pool cannot be created.
    """
    request = json.dumps({"kind": kind, "count": count, "seconds": seconds})
    found = running.request(request, seconds + MARGIN)
    if "stall" in found:
        what = "its calls wait for others in the queue of their own pool"
        raise StartError(what, "offload advise names that pool and its lines")
    if error := found.get("error"):
        raise kind_of(found.get("exit_code", StartError.exit_code))(str(error))
    return found


@dataclass(frozen=True)
class SpeedUp:
    """The figures of workers of one kind: medians over the rounds.

    `ratio` is their rate divided by that of one thread, `switches` the context switches per call.
    `gil_enabled` is the state of the GIL after the calls, in the process that runs the threads.
    """

    ratio: float
    switches: float
    gil_enabled: bool


def speed_ups(running: CallingProcess, workers: int, kinds: Sequence[str]) -> dict[str, SpeedUp]:
    """Measure kinds of workers ("threads", "processes" or "interpreters"), interleaved.

    Raise StartError for a kind that the task or this Python does not support.
    """
    alone: list[float] = []
    calls: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in kinds}
    for _ in range(ROUNDS):
        alone.append(call(running, "threads", 1, SECONDS)["rate"])
        for kind in kinds:
            calls[kind].append(call(running, kind, workers, SECONDS))
    return {kind: _median(found, statistics.median(alone)) for kind, found in calls.items()}


def least_s(kinds: int, call_s: float) -> float:
    """Return the time in s that `speed_ups` takes at least, if a call takes `call_s`."""
    return START + ROUNDS * (1 + kinds) * max(SECONDS, call_s)


def _median(found: Sequence[Mapping[str, Any]], alone: float) -> SpeedUp:
    return SpeedUp(
        statistics.median(calls["rate"] for calls in found) / alone,
        statistics.median(calls["switches"] for calls in found),
        found[-1]["gil_enabled"],
    )
