"""A benchmark as a process of its own: run it, observe it, and read its records."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from lab.faults.commands import failing_commands
from lab.faults.machine.processes import descendants, is_gone, kill_all
from lab.faults.machine.waiting import wait_until
from offload.engine import journal
from offload.engine.record import Record

BENCH = "bench"  # the name of a row whose faults affect the bench itself, instead of a server
SERVER = "offload.servers"  # in the command line of a server
TOOLS = ("offload.loads.builtin", "siege.conf", "ab -l ")  # in the command line of a load tool
PATH = os.environ.get("PATH", os.defpath)
STARTED_S = 20.0  # timeout until a server or a load tool of a benchmark has started
COMPLETE_S = 300.0  # timeout of a whole run; a load tool that hangs twice takes 75 s
END_S = 10.0  # timeout of the end after a signal


@dataclass(frozen=True)
class BenchExit:
    """How a benchmark ended: its exit code, and its lines on stderr."""

    code: int
    errors: tuple[str, ...]

    @property
    def error(self) -> str:
        """Its error message; empty unless it has exactly one, in its last line."""
        found = [line for line in self.errors if line.startswith("error: ")]
        return found[0] if len(found) == 1 and self.errors[-1] == found[0] else ""


@dataclass(frozen=True)
class BenchProcess:
    """A benchmark that was started, and the file that it writes its errors to."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def descendants(self) -> list[psutil.Process]:
        """Return the processes that it has started."""
        return descendants(self.process.pid)

    def servers(self) -> list[psutil.Process]:
        """Return the first processes of its servers."""
        return [each for each in self.descendants() if _has(each, (SERVER,))]

    def tools(self) -> list[psutil.Process]:
        """Return its load tools, with their processes."""
        return [each for each in self.descendants() if _has(each, TOOLS)]

    def wait_for_tool(self) -> psutil.Process | None:
        """Wait until a load tool runs, and return it; None if none has started."""
        wait_until(lambda: bool(self.tools()) or not self.is_running, STARTED_S)
        return next(iter(self.tools()), None)

    def kill(self) -> None:
        """Kill it by SIGKILL, but not the processes that it has started."""
        self.process.kill()
        self.process.wait(END_S)

    def wait(self, limit_s: float = COMPLETE_S) -> BenchExit:
        """Wait for its end; raise TimeoutExpired."""
        code = self.process.wait(limit_s)
        self.errors.seek(0)
        return BenchExit(code, tuple(self.errors.read().decode(errors="replace").splitlines()))


@contextmanager
def running(
    words: str,
    results: Path,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
) -> Iterator[BenchProcess]:
    """Run a command such as measure:3/sleep_sync, which writes to the folder `results`.

    `environment` is added to the variables of this process, and `prefix` is the command line of a
    program that runs the command. At the end of the block the benchmark is killed, and so are the
    processes that it has started.
    """
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*prefix, *failing_commands.offload(words)],
            env={
                **os.environ,
                "RESULTS": str(results),
                **(environment or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        bench = BenchProcess(process, errors)
        try:
            yield bench
        finally:
            children = bench.descendants()
            bench.kill()
            kill_all(children)


def run(words: str, results: Path, environment: Mapping[str, str] | None = None) -> BenchExit:
    """Run a command to its end."""
    with running(words, results, environment) as bench:
        return bench.wait()


def records(results: Path) -> list[Record]:
    """Return the records of all runs in a folder."""
    folders = sorted(path.parent for path in results.glob(f"*/{journal.FILE}"))
    return [record for folder in folders for record in journal.read(folder)]


def _has(process: psutil.Process, words: tuple[str, ...]) -> bool:
    """Whether a running process has one of the words in its command line."""
    with suppress(psutil.Error):
        line = " ".join(process.cmdline())
        return any(word in line for word in words) and not is_gone(process)
    return False
