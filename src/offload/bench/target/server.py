"""Start and stop the server under test, in its own process group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

import psutil

from offload import cores
from offload.bench.target import handshake, interpreters, packages, temporary_files
from offload.bench.target.json_lines import read_lines
from offload.errors import MachineError, UsageError
from offload.registry import bind_address, catalog
from offload.suites import Case

SETTINGS_OF_ALL = ("allowed_hosts", "bind")  # settings that are no parameters of `serve`
SHORT_DRAIN = 0.6  # s for a drain without waiting users; minimum time before a second signal
DRAIN = 12.0  # s for a drain: the server's own limit is 10 s
REAP = 1.0  # s for processes that the server left running, and after SIGKILL
POLL = 0.005  # s


@dataclass
class Server:
    """A running server: `facts` is its ready line, and after `stop`, `ending` is its last line.

    After `stop`, `cpu_s` is the CPU time of the server and of all its descendants in seconds, and
    `left` is True if some of them had to be killed.
    """

    process: subprocess.Popen[bytes]
    pipe: int
    log: IO[bytes]
    ready_s: float
    facts: dict[str, object] = field(default_factory=dict)
    ending: dict[str, object] = field(default_factory=dict)
    cpu_s: float = 0.0
    left: bool = False
    is_stopping: bool = False
    is_stopped: bool = False

    @property
    def url(self) -> str:
        """The URL of its task."""
        return bind_address.url(self.facts.get("bind"), self.facts["port"])


def command(case: Case, port: int) -> tuple[list[str], dict[str, str]]:
    """Return the command and the additional environment that start a case's server on `port`.

    Raise UsageError for an unknown setting or interpreter.
    """
    server = catalog.find_server(case.server)
    for key in case.settings:
        if key not in server.settings and key not in SETTINGS_OF_ALL:
            if key == "processes":
                raise catalog.without_processes(server)
            known = ", ".join(f"{name}=" for name in (*server.settings, *SETTINGS_OF_ALL))
            raise UsageError(f"{server.name} has no setting {key}=: it has {known}")
    environment = {f"SERVER_{key.upper()}": str(value) for key, value in case.settings.items()}
    if case.path is not None:
        environment["TASK_PATH"] = case.path
    task = catalog.find_task(case.task, case.path).name
    catalog.check_work(server, task)
    python = sys.executable if case.python is None else interpreters.find(case.python)
    if case.origin is not None and case.origin.python is not None:
        python = case.origin.python
    environment |= interpreters.environment(case.python)
    return [python, "-P", "-m", "offload.servers", server.name, task, str(port)], environment


def start(case: Case, environment: Mapping[str, str]) -> Server:
    """Start a case's server on a free port and wait until it is ready; the caller must `stop` it.

    Raise StartError, or the error that the server reported.
    """
    server = launch(case, environment)
    try:
        await_ready(server, case)
    except BaseException:
        stop(server)
        raise
    return server


def launch(
    case: Case, environment: Mapping[str, str], ready_s: float = handshake.READY, port: int = 0
) -> Server:
    """Start a case's server with a timeout of `ready_s` for `await_ready`; do not wait.

    With port 0 it listens on a free port.
    """
    argv, settings = command(case, port)
    settings |= packages.environment_for(case, argv[0])
    settings["SERVER_READY_S"] = str(ready_s)
    folder = None if case.origin is None else case.origin.folder
    with cores.limited_to(case.placement.server_cpus):
        return _popen(argv, {**environment, **settings}, ready_s, folder)


def await_ready(server: Server, case: Case) -> None:
    """Wait until a server that was launched is ready; raise StartError or the server's error."""
    with server.log as log:
        server.facts = handshake.read_ready_line(
            server.process.pid, server.pipe, case, log, server.ready_s
        )


def inherited_environment() -> dict[str, str]:
    """Return this process's environment without variables that would be settings of a server."""
    return {name: text for name, text in os.environ.items() if not name.startswith("SERVER_")}


def _popen(
    argv: list[str], environment: Mapping[str, str], ready_s: float, folder: str | None
) -> Server:
    log = temporary_files.create()  # closed when the server is ready, or stopped
    reading, writing = os.pipe()
    pipe_settings = {"SERVER_READY_FD": str(writing), "SERVER_DIES_WITH": str(os.getpid())}
    try:
        process = subprocess.Popen(
            argv,
            env={**inherited_environment(), **environment, **pipe_settings},
            cwd=folder,
            pass_fds=(writing,),
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    except OSError as error:
        os.close(reading)
        log.close()
        what = f"{argv[0]} does not start: {error.strerror}"
        raise MachineError(what, "offload pythons lists interpreters that do") from error
    finally:
        os.close(writing)
    return Server(process, reading, log, ready_s)


def exit_reason(pid: int) -> str | None:
    """Return how a server's process ended, without reaping it; None while it runs."""
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:  # it was started by another process
        return "the server ended" if _has_ended(pid) else None
    if found is None:
        return None
    if found.si_code == os.CLD_EXITED:
        return f"the server ended with exit code {found.si_status}"
    description = signal.strsignal(found.si_status)
    return f"the server was ended by signal {found.si_status} ({description})"


def _has_ended(pid: int) -> bool:
    """Whether a process of another parent has ended; a zombie has."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


def request_stop(server: Server) -> None:
    """Send SIGTERM to the server only, so that it drains; the caller must also call `stop`."""
    if server.process.returncode is None and not server.is_stopping:
        server.process.send_signal(signal.SIGTERM)
    server.is_stopping = True


def stop(server: Server, drain: float = DRAIN) -> None:
    """Request the stop, then kill and reap the rest of the server's process group.

    After `drain` seconds a second signal stops the server immediately, without its last line. If
    the server is already stopped, do nothing.
    """
    if server.is_stopped:
        return
    server.is_stopped = True
    request_stop(server)
    if not _reap(server, drain) and server.process.returncode is None:
        server.process.send_signal(signal.SIGTERM)
    if not _reap(server, REAP):  # True immediately if no process is left
        server.left = True
        with suppress(ProcessLookupError):
            os.killpg(server.process.pid, signal.SIGKILL)
        _reap(server, REAP)
    with suppress(TimeoutError, ValueError):  # ValueError: the task wrote to the pipe
        for line in read_lines(server.pipe, deadline=time.monotonic()):
            server.ending = line
    os.close(server.pipe)
    server.log.close()


def _reap(server: Server, timeout_s: float) -> bool:
    """Reap the server and the orphans of its group, and add their CPU time; False on timeout."""
    group = server.process.pid
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        try:
            pid, status, usage = os.wait4(-group, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            time.sleep(POLL)  # wait4 has no timeout
            continue
        server.cpu_s += usage.ru_utime + usage.ru_stime
        if pid == group:
            server.process.returncode = os.waitstatus_to_exitcode(status)
            until = min(until, time.monotonic() + REAP)
    return False
