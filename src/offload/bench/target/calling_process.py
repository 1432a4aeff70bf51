"""A process that calls a task without a server: it gets lines on stdin and prints lines of JSON."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any

from offload.bench.target import interpreters, packages
from offload.bench.target.json_lines import read_lines
from offload.errors import StartError
from offload.registry import catalog

GRACE = 2.0  # s to end by itself
ERROR = "error: "  # before the message of a process that cannot start


class CallingProcess:
    """A running process; `facts` is the first line that it printed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid
        self.facts: dict[str, Any] = {}

    def request(self, line: str, seconds: float) -> dict[str, Any]:
        """Send a line and return the response; raise StartError after `seconds` or at its end."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # `read` reports the end
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        return self.read(seconds)

    def read(self, seconds: float) -> dict[str, Any]:
        """Read one line of JSON; raise StartError after `seconds` or at the process's end."""
        assert self._process.stdout is not None
        try:
            for line in read_lines(self._process.stdout.fileno(), time.monotonic() + seconds):
                return line
        except TimeoutError:
            raise StartError(f"calls of the task did not end within {seconds:.0f} s") from None
        raise StartError("the task ended the process that called it")


@contextmanager
def start(
    module: str,
    task: str,
    *arguments: str,
    python: str | None,
    path: str | None,
    environment: Mapping[str, str],
    ready_s: float,
) -> Iterator[CallingProcess]:
    """Run a module of the toolkit with a task and `arguments`, in an interpreter (None: this one).

    `path` is a folder that a user's task imports from. Raise StartError if the process is not ready
    within `ready_s`, or the error that it printed.
    """
    program = sys.executable if python is None else interpreters.find(python)
    entry = catalog.find_task(task, path)
    needed = packages.environment(program, entry.packages)
    added = {**environment, **needed, **interpreters.environment(python)}
    if path is not None:
        added["TASK_PATH"] = path
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [program, "-P", "-m", module, entry.name, *arguments],
            env={**os.environ, **added},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        try:
            running = CallingProcess(process)
            running.facts = _ready(running, log, ready_s)
            yield running
        finally:
            _end(process)


def _ready(running: CallingProcess, log: IO[bytes], seconds: float) -> dict[str, Any]:
    try:
        return running.read(seconds)
    except StartError as error:
        log.seek(0)
        lines = log.read().decode(errors="replace").strip().splitlines()
        reported = [line for line in lines if line.startswith(ERROR)]  # a task may print more
        last = (reported or lines or [str(error)])[-1]
        raise StartError(last.removeprefix(ERROR)) from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the process's input, so that it removes its files and exits; kill it after GRACE.

    Its workers end with it.
    """
    try:
        process.communicate(timeout=GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
