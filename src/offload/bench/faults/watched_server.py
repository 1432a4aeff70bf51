"""A server under attack: its log, processes, descriptors, and the number of calls of its task."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from offload.bench.target import server
from offload.bench.telemetry.process_tree import ProcessTree
from offload.errors import StartError
from offload.registry import catalog
from offload.suites import Case

COUNTED = f"{Path(__file__).parent / 'served' / 'counted.py'}:counted"
BACKLOG = 256  # connections: more than clients connect at a time
SETTLE_S = 20.0  # s for connections to close: longer than the deadline of a request
STEADY = 5  # equal readings one after another
POLL_S = 0.1
TRACEBACK = "Traceback (most recent call last)"


@dataclass
class WatchedServer:
    """A running server and what can be observed of it from outside."""

    running: server.Server
    tree: ProcessTree
    log: IO[bytes]
    folder: Path

    @property
    def port(self) -> int:
        """Its port on 127.0.0.1."""
        return int(str(self.running.facts["port"]))

    @property
    def count_file(self) -> Path:
        """The file in which the task `counted` counts its calls."""
        return self.folder / "count"

    def calls(self) -> int:
        """Return the number of calls of the task `counted` so far."""
        return self.count_file.stat().st_size if self.count_file.exists() else 0

    def pids(self) -> set[int]:
        """Return the pids of the server and its descendants; raise StartError if it has ended."""
        self.check_alive()
        self.tree.refresh()
        return {process.pid for process in self.tree.members}

    def check_alive(self) -> None:
        """Raise StartError if the server has ended."""
        why = server.exit_reason(self.running.process.pid)
        if why is not None:
            raise StartError(why, f"its last line is {self.last_line()!r}")

    def sizes(self) -> tuple[int, int]:
        """Return the numbers of file descriptors and threads of the whole tree."""
        self.pids()
        files = self.tree.open_files()
        threads = sum(_threads(process.pid) for process in self.tree.members)
        return int(files or 0), threads

    def settled_sizes(
        self, goal: Callable[[tuple[int, int]], bool] | None = None
    ) -> tuple[int, int]:
        """Wait until the sizes are steady and reach `goal`, if there is one; return them.

        After SETTLE_S return the last ones.
        """
        until = time.monotonic() + SETTLE_S
        last, equal = self.sizes(), 0
        while time.monotonic() < until:
            time.sleep(POLL_S)
            current = self.sizes()
            equal = equal + 1 if current == last else 0
            last = current
            if equal >= STEADY and (goal is None or goal(last)):
                break
        return last

    def log_text(self) -> str:
        """Return what the server and its processes have printed on stderr."""
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode(errors="backslashreplace")

    def last_line(self) -> str:
        """Return the last line of the log."""
        return next(iter(reversed(self.log_text().splitlines())), "")


@contextmanager
def watched(
    name: str,
    task: str = COUNTED,
    settings: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    prepare: Callable[[Path], Mapping[str, str]] | None = None,
) -> Iterator[WatchedServer]:
    """Run a server with a task; raise StartError, or the error that the server reported.

    `prepare` may write files to the server's folder, and returns more of its environment.
    """
    wanted = {"backlog": BACKLOG, **(settings or {})}
    known = catalog.find_server(name).settings
    case = Case(name, task, settings={k: v for k, v in wanted.items() if k in known})
    with tempfile.TemporaryDirectory(prefix="offload-faults-") as made:
        folder = Path(made)
        variables = {"FAULTS_COUNT": str(folder / "count"), **(environment or {})}
        variables |= {} if prepare is None else prepare(folder)
        running = server.launch(case, variables)
        log = os.fdopen(os.dup(running.log.fileno()), "rb")
        try:
            server.await_ready(running, case)
            yield WatchedServer(running, ProcessTree(running.process.pid), log, folder)
        finally:
            server.stop(running)
            log.close()


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 - names, not paths
    except OSError:  # it has ended, or this is not Linux
        return 0
