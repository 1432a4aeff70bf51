"""Direct calls: run a task in threads and in processes without a server, in a child process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from offload.bench.target import interpreters, packages
from offload.bench.target.json_lines import read_lines
from offload.errors import StartError
from offload.registry import catalog

READY = 15.0  # s until all workers have imported the task
GRACE = 2.0  # s to end by itself
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

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.facts: dict[str, object] = {}

    def call(self, kind: str, count: int, seconds: float) -> Calls:
        """Call the task in `count` threads, processes or interpreters for `seconds`.

        Raise StartError if the process ends, or if interpreters cannot be started.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind} {count} {seconds}\n".encode())
        self._process.stdin.flush()
        result = self.line(seconds + PATIENCE)
        if "error" in result:
            raise StartError(str(result["error"]))
        return Calls(**result)

    def line(self, seconds: float) -> dict[str, Any]:
        """Read one line of JSON; raise StartError after a timeout of `seconds`."""
        assert self._process.stdout is not None
        try:
            for line in read_lines(self._process.stdout.fileno(), time.monotonic() + seconds):
                return line
        except TimeoutError:
            raise StartError(f"direct calls did not answer within {seconds:.0f} s") from None
        raise StartError("direct calls ended early")


@contextmanager
def direct(
    task: str, workers: int, python: str | None, path: str | None, environment: Mapping[str, str]
) -> Iterator[Direct]:
    """Start a process that calls `task` in up to `workers` workers; raise StartError."""
    program = sys.executable if python is None else interpreters.find(python)
    entry = catalog.find_task(task, path)
    needed = packages.environment(program, entry.packages)
    added = {**environment, **needed, **interpreters.environment(python)}
    if path is not None:
        added["TASK_PATH"] = path
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [
                program,
                "-P",
                "-m",
                "offload.serving.direct_calls",
                entry.name,
                str(workers),
            ],
            env={**os.environ, **added},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        try:
            running = Direct(process)
            running.facts = dict(_ready(running, log))
            yield running
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the process's input, so that it removes its files and exits; kill it after GRACE.

    Its workers end with it.
    """
    try:
        process.communicate(timeout=GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _ready(running: Direct, log: IO[bytes]) -> dict[str, Any]:
    try:
        return running.line(READY)
    except StartError as error:
        log.seek(0)
        last = (log.read().decode(errors="replace").strip().splitlines() or [str(error)])[-1]
        raise StartError(last.removeprefix("error: ")) from None
