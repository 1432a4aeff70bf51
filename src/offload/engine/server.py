"""Start a server in a process of its own, wait until it is ready, and stop it.

A server reports JSON lines through a pipe: one when it is ready, and one when it ends.
"""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any

import psutil

from offload import cores, upstream
from offload.engine import interpreters
from offload.errors import MachineError, StartError, UsageError, UserError, kind_of
from offload.flags import CANNOT_LOAD
from offload.registry import addresses, application, catalog
from offload.suites import Case
from offload.upstream import Upstream

SETTINGS_OF_ALL = ("allowed_hosts", "bind")  # settings that are no parameters of `serve`
READY = 10.0  # s for a server and its workers to import the task
REPORT = 2.0  # s after READY in which the server may still report its own error
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
        return addresses.server_url(self.facts.get("bind"), self.facts["port"])


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
    case: Case, environment: Mapping[str, str], ready_s: float = READY, port: int = 0
) -> Server:
    """Start a case's server with a timeout of `ready_s` for `await_ready`; do not wait.

    With port 0 it listens on a free port.
    """
    argv, settings = command(case, port)
    settings |= interpreters.environment_for(case, argv[0])
    settings["SERVER_READY_S"] = str(ready_s)
    folder = None if case.origin is None else case.origin.folder
    with cores.limited_to(case.placement.server_cpus):
        return _popen(argv, {**environment, **settings}, ready_s, folder)


def await_ready(server: Server, case: Case) -> None:
    """Wait until a server that was launched is ready; raise StartError or the server's error."""
    with server.log as log:
        server.facts = read_ready_line(server.process.pid, server.pipe, case, log, server.ready_s)


def inherited_environment() -> dict[str, str]:
    """Return this process's environment without variables that would be settings of a server."""
    return {name: text for name, text in os.environ.items() if not name.startswith("SERVER_")}


def _popen(
    argv: list[str], environment: Mapping[str, str], ready_s: float, folder: str | None
) -> Server:
    log = create_temporary_file()  # closed when the server is ready, or stopped
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


LAST_BYTES = 1 << 16  # bytes of the end of a process's output that are read
LONGEST_LINE = 1000  # characters of a printed line that an error quotes
UNFINISHED = "it listens, but the start of the application, such as its lifespan, did not end"
UNANNOUNCED = "it listens but did not report that it is ready: call readiness.announce(port)"


def read_ready_line(
    pid: int, pipe: int, case: Case, log: IO[bytes], ready_s: float
) -> dict[str, object]:
    """Wait for a server's ready line and return it; raise the server's own error or StartError."""
    deadline = time.monotonic() + ready_s + REPORT
    is_late = False
    try:
        for line in read_lines(pipe, deadline):
            if "error" in line:
                raise as_error(line)
            return line
    except TimeoutError:
        is_late = True
    except ValueError:
        what = f"{case.name} wrote to the pipe of its server"
        raise StartError(what, "let it write only to descriptors that it opened") from None
    what = f"was not ready within {ready_s:.0f} s" if is_late else "ended before it was ready"
    output = last_lines(log) or ["no output"]
    why = output[-1][:LONGEST_LINE]
    if is_late and _is_listening(pid):
        why = UNFINISHED if application.is_application(case.task) else UNANNOUNCED
    raise StartError(f"{case.name} {what} ({why})", f"try {shlex.join(['offload', *case.words])}")


def last_lines(log: IO[bytes]) -> list[str]:
    """Return the last lines of a process's output, up to LAST bytes of it."""
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - LAST_BYTES))
    return log.read().decode(errors="replace").strip().splitlines()


def as_error(line: dict[str, object]) -> UserError:
    """Return the error that a server or a helper process reported as a JSON object."""
    code = int(str(line["exit_code"]))
    error = kind_of(code)(str(line["error"]), str(line.get("remedy", "")))
    # With these exit codes a package or the task cannot be imported.
    if code in (UsageError.exit_code, MachineError.exit_code):
        error.kind = CANNOT_LOAD
    return error


def _is_listening(pid: int) -> bool:
    """Whether a process or a descendant listens on a TCP port; False if that is unknown."""
    with suppress(psutil.Error):
        server = psutil.Process(pid)
        family = [server, *server.children(recursive=True)]
        found = (one.status for process in family for one in process.net_connections("tcp"))
        return psutil.CONN_LISTEN in found
    return False


def read_lines(pipe: int, deadline: float) -> Iterator[dict[str, Any]]:
    """Yield each line until all writers have closed the pipe; raise TimeoutError at `deadline`.

    `deadline` is a time of time.monotonic(). An incomplete last line is ignored. Raise ValueError
    for any other text: a user's code in the process may write to all of its descriptors.
    """
    pending = b""
    while True:
        if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        if not (data := os.read(pipe, 1 << 16)):
            return
        *whole, pending = (pending + data).split(b"\n")
        for line in whole:
            if not isinstance(found := json.loads(line), dict):
                raise ValueError(f"{line[:50]!r} is no JSON object")
            yield found


def create_temporary_file() -> IO[bytes]:
    """Return a temporary file without a name; raise MachineError."""
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise temporary_file_error(error) from error


def temporary_file_error(error: OSError) -> MachineError:
    """Return the error to raise if a temporary file cannot be written."""
    what = f"no temporary file can be written ({error.strerror})"
    return MachineError(what, "free disk space, or set TMPDIR to a folder with free space")


def needs_upstream(case: Case) -> bool:
    """Whether a case's task fetches from the upstream."""
    return catalog.find_task(case.task, case.path).needs_upstream


@contextmanager
def hold_for(*cases: Case) -> Iterator[Upstream | None]:
    """Start the upstream, or use the running one, if a case needs it; otherwise yield None.

    Raise StartError if it cannot start.
    """
    if not any(needs_upstream(case) for case in cases):
        yield None
        return
    with upstream.hold() as held:
        yield held.upstream
