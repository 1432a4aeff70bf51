"""A server whose task behaves as the lab chooses, observed from outside."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from lab.faults.machine import processes
from offload.engine import server
from offload.registry import catalog
from offload.suites import Case

TASK = f"{Path(__file__).parents[1] / 'served' / 'faulty.py'}:act"
CONTROL, TOKEN, CALLS, DEADLY = "control", "token", "calls", "deadly"  # see served/faulty.py
WORKERS = 4
HELPER = "resource_tracker import"  # in the command line of a process that is no worker


@dataclass
class FaultyServer:
    """A running server with the task `act`, its log, and the folder of the task's files."""

    running: server.Server
    log: IO[bytes]
    folder: Path

    @property
    def port(self) -> int:
        """Its port on 127.0.0.1."""
        return int(str(self.running.facts["port"]))

    @property
    def pid(self) -> int:
        """The pid of its first process."""
        return self.running.process.pid

    def log_text(self) -> str:
        """Return what the server and its processes have printed on stderr."""
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode(errors="backslashreplace")

    def calls(self) -> int:
        """Return the number of calls of the task that have started."""
        return (self.folder / CALLS).stat().st_size

    def act(self, how: str) -> None:
        """Let the task behave like this from now on: a name in `served.faulty.ACTS`."""
        _set(self.folder, how)

    def kill_at_work(self) -> None:
        """Let the next call of the task kill its process, if the task behaves as `mixed`."""
        (self.folder / DEADLY).touch()

    def workers(self) -> list[int]:
        """Return the pids of the processes that serve or run tasks, without the first process.

        These are the descendants without children of their own: those with children start workers.
        """
        found = []
        for process in self.descendants():
            with suppress(psutil.NoSuchProcess):
                is_helper = HELPER in " ".join(process.cmdline())
                is_dead = process.status() == psutil.STATUS_ZOMBIE
                if not process.children() and not is_dead and not is_helper:
                    found.append(process.pid)
        return sorted(found)

    def is_alive(self) -> bool:
        """Whether the first process runs."""
        return self.exit_code() is None

    def exit_code(self) -> int | None:
        """Return the exit code of the first process, or minus its signal; None while it runs."""
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def connected(self) -> int:
        """Return the number of connections that the kernel has accepted for it."""
        return sum(
            each.laddr.port == self.port and each.status == psutil.CONN_ESTABLISHED
            for each in psutil.net_connections("tcp4")
            if each.laddr
        )

    def descendants(self) -> list[psutil.Process]:
        """Return all processes below the first one."""
        return processes.descendants(self.pid)

    def open_files(self) -> dict[int, int]:
        """Return the number of open file descriptors of each of its processes, by pid."""
        found = {}
        for process in (psutil.Process(self.pid), *self.descendants()):
            with suppress(psutil.NoSuchProcess):
                found[process.pid] = process.num_fds()
        return found


@contextmanager
def faulty(
    name: str,
    how: str,
    settings: Mapping[str, object] | None = None,
    workers: int = WORKERS,
    task: str = TASK,
    port: int = 0,
    environment: Mapping[str, str] | None = None,
) -> Iterator[FaultyServer]:
    """Run a server with the task `act` and `workers` workers, or processes.

    Settings that the server does not have are left out. Raise StartError, or the error that the
    server reported. Another `task` does not behave as the lab chooses. The default port is a free
    one. `environment` are variables that are added to those of this process.
    """
    entry = catalog.find_server(name)
    wanted = {**({entry.size: workers} if entry.size else {}), **(settings or {})}
    case = Case(name, task, settings={k: v for k, v in wanted.items() if k in entry.settings})
    with tempfile.TemporaryDirectory(prefix="offload-faults-") as temporary:
        folder = Path(temporary)
        _set(folder, how)
        for file in (TOKEN, CALLS):
            (folder / file).touch()
        variables = {"FAULTS_FOLDER": temporary, **(environment or {})}
        running = server.launch(case, variables, port=port)
        log = os.fdopen(os.dup(running.log.fileno()), "rb")  # `await_ready` closes its own
        try:
            server.await_ready(running, case)
            yield FaultyServer(running, log, folder)
        finally:
            server.stop(running)
            log.close()


def _set(folder: Path, how: str) -> None:
    new = folder / f"{CONTROL}.new"
    new.write_text(how)
    new.replace(folder / CONTROL)
