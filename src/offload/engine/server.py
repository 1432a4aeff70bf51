"""The server under test: start it in a process of its own, wait until it is ready, and stop it.

A server reports JSON lines through a pipe: one when it is ready, and one when it ends. Below stand
the upstream that a case may need, the interpreters that it can name, and the packages that its
server needs in one.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

import psutil

from offload import prctl, resource_limits, upstream
from offload.errors import CANNOT_LOAD, MachineError, StartError, UsageError, UserError, kind_of
from offload.registry import addresses, catalog, places
from offload.registry.catalog import is_application
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
    python = sys.executable if case.python is None else find_interpreter(case.python)
    if case.origin is not None and case.origin.python is not None:
        python = case.origin.python
    environment |= gil_environment(case.python) | dict(case.variables)
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

    With port 0 it listens on a free port. Orphans of the server become children of this process,
    so that `stop` ends them, too.
    """
    prctl.adopt_orphans()
    argv, settings = command(case, port)
    settings |= environment_for(case, argv[0])
    settings["SERVER_READY_S"] = str(ready_s)
    folder = None if case.origin is None else case.origin.folder
    with resource_limits.limited_to_cpus(case.placement.server_cpus):
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
        why = UNFINISHED if catalog.is_application(case.task) else UNANNOUNCED
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


def read_lines(
    pipe: int, deadline: float, *, skip_preamble: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield each line until all writers have closed the pipe; raise TimeoutError at `deadline`.

    `deadline` is a time of time.monotonic(). An incomplete last line is ignored. Raise ValueError
    for any other text: a user's code in the process may write to all of its descriptors. A preamble
    is what a process prints before it calls `calling.begin`; an empty object ends it.
    """
    pending = b""
    while True:
        if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        if not (data := os.read(pipe, 1 << 16)):
            return
        *whole, pending = (pending + data).split(b"\n")
        for line in whole:
            if skip_preamble:
                skip_preamble = not line.endswith(b"{}")
                continue
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


PYTHONS_FOLDER = (
    places.interpreters()
)  # interpreters built by scripts/, and packages for interpreters
OLDEST = (3, 11)
PROBE = """
import json, sys, sysconfig
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "gil_enabled": getattr(sys, "_is_gil_enabled", lambda: True)(),
}))
"""
PYTHON_NAME = re.compile(r"3\.[0-9]{1,3}t?")
PYTHON_PROGRAM = re.compile(r"python3\.\d+t?|python3")
GIL_SUFFIX = re.compile(r"(?P<name>.+)-(?P<state>gil|nogil)")


@dataclass(frozen=True)
class Python:
    """An interpreter: `name` is 3.14, or 3.14t if free-threaded; `source` is where it was found."""

    name: str
    path: str
    source: str
    version: str
    gil_enabled: bool


def find_interpreter(word: str) -> str:
    """Return the path of the interpreter `word`: `3.14`, `3.13t-nogil` or a path.

    Raise UsageError if it does not exist, or if -gil or -nogil is used with a normal build.
    """
    path, suffixed = _interpreter_path(word), GIL_SUFFIX.fullmatch(word)
    if path is None and suffixed is not None:
        path = _interpreter_path(suffixed["name"])
        if path is not None and not (_probe(path) or {}).get("free_threaded"):
            fix = f"use -{suffixed['state']} with a free-threaded build, such as 3.13t"
            raise UsageError(f"the GIL of {suffixed['name']!r} cannot be switched", fix)
    if path is None:
        if PYTHON_NAME.fullmatch(word) and tuple(map(int, word.rstrip("t").split("."))) < OLDEST:
            raise UsageError(f"python={word}: servers run in 3.11 or newer")
        fix = f"offload pythons shows how to install it, or set PYTHONS={word}=/path/of/python"
        raise UsageError(f"no Python at {word!r}", fix)
    return path


def gil_environment(word: str | None) -> dict[str, str]:
    """Return the variable PYTHON_GIL: 1 for `3.13t-gil`, 0 for `3.13t-nogil`, else no variable."""
    suffixed = GIL_SUFFIX.fullmatch(word or "")
    if suffixed is None or _interpreter_path(suffixed[0]) is not None:  # a path may end in -gil
        return {}
    return {"PYTHON_GIL": "1" if suffixed["state"] == "gil" else "0"}


def filter_interpreters(words: Sequence[str]) -> list[str]:
    """Return the installed interpreters and report missing ones on stderr.

    Raise UsageError if none is installed.
    """
    usable: list[str] = []
    missing: list[UsageError] = []
    for word in dict.fromkeys(words):
        try:
            find_interpreter(word)
            usable.append(word)
        except UsageError as error:
            missing.append(error)
    if not usable:
        raise missing[0]
    for reason in missing:
        print(f"left out: {reason}", file=sys.stderr)
    return usable


def _interpreter_path(word: str) -> str | None:
    if (path := broken_names().get(word)) is not None:
        raise UsageError(f"no Python at {path!r}", "fix PYTHONS")
    if (program := _program(user_paths().get(word, word))) is not None:
        return program
    known = find_interpreters() if PYTHON_NAME.fullmatch(word) else []
    return next((python.path for python in known if python.name == word), None)


def _program(word: str) -> str | None:
    program = shutil.which(_expanded(word))
    # do not resolve links: the python of a venv is a link
    return None if program is None else str(Path(program).absolute())


def _expanded(text: str) -> Path:
    """Return a path with its ~ expanded, or unchanged if that user does not exist."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def broken_names() -> dict[str, str]:
    """Return the names and paths in PYTHONS that are not working interpreters."""
    programs = {name: _program(path) or path for name, path in user_paths().items()}
    return {name: path for name, path in programs.items() if _probe(path) is None}


def user_paths() -> dict[str, str]:
    """Return the paths in PYTHONS (3.14=/path/of/python+3.14t=/path/of/another) by name."""
    words = [word for word in os.environ.get("PYTHONS", "").split("+") if word]
    pairs = [word.partition("=") for word in words]
    if not all(name and path for name, _, path in pairs):
        raise UsageError("PYTHONS must have the form 3.14=/path/of/python+3.14t=/path/of/another")
    return {name: path for name, _, path in pairs}


def find_interpreters() -> list[Python]:
    """Return all interpreters, newest first; for each name the first one of `_paths`.

    If the path of a name in PYTHONS is broken, no other interpreter with this name is returned.
    """
    by_name: dict[str, Python] = {}
    for source, path in _paths():
        facts = _probe(path)
        if facts is None or tuple(facts["version"]) < OLDEST:
            continue
        major, minor, micro = facts["version"]
        name = f"{major}.{minor}{'t' if facts['free_threaded'] else ''}"
        version = f"{major}.{minor}.{micro}"
        by_name.setdefault(name, Python(name, path, source, version, facts["gil_enabled"]))
    usable = [python for name, python in by_name.items() if name not in broken_names()]
    return sorted(usable, key=lambda p: [int(n) for n in p.version.split(".")])[::-1]


def _paths() -> Iterator[tuple[str, str]]:
    """Yield the source and path of each interpreter, in the order of precedence."""
    yield "this one", sys.executable
    for path in filter(None, map(_program, user_paths().values())):
        yield "PYTHONS", path
    for folder_name in os.environ.get("PATH", "").split(os.pathsep):
        for program in sorted(Path(folder_name).glob("python3*")):
            if PYTHON_PROGRAM.fullmatch(program.name):
                yield "PATH", str(program)
    pyenv = _expanded(os.environ.get("PYENV_ROOT", "~/.pyenv"))
    uv = _expanded(os.environ.get("UV_PYTHON_INSTALL_DIR", "~/.local/share/uv/python"))
    for source, folders in (
        (".pythons", PYTHONS_FOLDER.glob("*/bin")),
        ("pyenv", pyenv.glob("versions/*/bin")),
        ("uv", uv.glob("*/bin")),
    ):
        with suppress(PermissionError):  # the folder of another user
            for folder in sorted(folders, reverse=True):
                if (folder / "python3").exists():
                    yield source, str(folder / "python3")


@functools.cache
def _probe(path: str) -> dict[str, Any] | None:
    """Run an interpreter and return its facts; None if it fails.

    With -S it runs no sitecustomize.py, which may print.
    """
    try:
        process = subprocess.run(
            [path, "-I", "-S", "-c", PROBE], capture_output=True, text=True, timeout=10, check=True
        )
        facts: dict[str, Any] = json.loads(process.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return facts


# Packages for all servers and tasks. Further ones are in NEEDS of a server and PACKAGES of a task.
ALWAYS = ("tornado", "requests", "lxml", "feedparser", "tenacity", "cryptography")
# Installed only as wheels, because a build from source takes minutes.
ONLY_WHEELS = (
    "lxml,cryptography,granian,uvloop,httptools,gevent,numpy,pandas,pillow,bcrypt,argon2-cffi-bindings,"
    "regex,nh3,rapidfuzz,pydantic-core,orjson,msgpack,pyyaml,brotli,zstandard,sqlalchemy,greenlet"
)
INSTALL_TIMEOUT = 600.0  # s for one package
_failed: dict[str, set[str]] = {}  # by interpreter; only the next command retries them
OLDEST_PIP = (24, 1)  # an older pip installs wheels for normal builds in a free-threaded build


def environment_with_packages(
    python: str,
    needs: Sequence[str] = (),
    work: str = "",
    ours: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the variable PYTHONPATH with which servers start in the interpreter `python`.

    If the interpreter has Tornado and the packages in `needs`, PYTHONPATH only adds `offload` and
    `pipepool`. Otherwise the required packages are installed into a folder for this interpreter
    under .pythons, in the versions and with the hashes of the lock. Packages that cannot be
    installed are reported and skipped, and a server that needs one does not start; the next command
    retries them. If `work` is a user's application, only
    the packages in `needs` are required, because the application has its own. `ours` is a
    PYTHONPATH to use instead of this checkout's. Raise MachineError if Tornado cannot be installed.
    """
    ours = dict(places.import_path(python) if ours is None else ours)
    if python == sys.executable:
        return ours
    always = () if is_application(work) else ALWAYS
    if _has(python, (*always[:1], *needs)):
        return ours
    folder = _packages_folder(python, always)
    listing = folder / "installed"
    known = listing.read_text().splitlines() if listing.exists() else []
    failed = _failed.setdefault(python, set())
    lines = places.pins(always) + places.pins(needs)
    if missing := [line for line in lines if line not in known and line not in failed]:
        installed = _install(python, folder, missing)
        folder.mkdir(parents=True, exist_ok=True)  # pip creates it only with a package
        listing.write_text("\n".join([*known, *installed]))
        failed.update(set(missing) - set(installed))
    return {"PYTHONPATH": f"{ours['PYTHONPATH']}:{folder}"}


def environment_for(case: Case, python: str) -> dict[str, str]:
    """Return `environment` for the packages that a case's server and its task import.

    If the case's origin is a virtual environment, it must have all of them: none is installed.
    """
    if case.origin is None:
        return environment_with_packages(python, needs_of(case), case.task)
    ours = places.import_path(python, case.origin.toolkit, case.origin.search)
    if case.origin.python is not None:
        return ours
    return environment_with_packages(python, needs_of(case), case.task, ours)


def needs_of(case: Case) -> tuple[str, ...]:
    """Return the packages that a case's server and its task import, by their import names."""
    server, task = catalog.find_server(case.server), catalog.find_task(case.task, case.path)
    return (*server.needs, *task.packages)


def _has(python: str, names: Sequence[str]) -> bool:
    return not names or _succeeds([python, "-P", "-c", f"import {', '.join(names)}"], 30)


def _packages_folder(python: str, always: Sequence[str]) -> Path:
    digest = hashlib.sha256("\n".join([python, *places.lines_for(always)]).encode()).hexdigest()[:8]
    return PYTHONS_FOLDER / f"packages-{Path(python).name}-{digest}"


def _install(python: str, folder: Path, packages: Sequence[str]) -> list[str]:
    """Install packages one by one; return the successful ones."""
    print(f"installing {len(packages)} packages for {python}", file=sys.stderr)
    installed = [
        package for package in packages if _succeeds(_pip(python, folder, package), INSTALL_TIMEOUT)
    ]
    tornado = places.pins(ALWAYS[:1])[0]
    if tornado in packages and tornado not in installed:
        command = " ".join(_pip(python, folder, tornado))
        raise MachineError(f"{tornado} cannot be installed for {python}", command)
    if failed := [package for package in packages if package not in installed]:
        print(f"cannot be installed for {python}: {', '.join(failed)}", file=sys.stderr)
    return installed


def _pip(python: str, folder: Path, package: str) -> list[str]:
    """Return a command of this environment's pip for another interpreter, which may have none."""
    name, _, _ = package.partition("==")
    required = PYTHONS_FOLDER / "requirements" / f"{name}.txt"
    required.parent.mkdir(parents=True, exist_ok=True)
    required.write_text("\n".join(places.locked(package)))
    pip = [*_our_pip(), "--python", python, "install", "--quiet"]
    options = ["--disable-pip-version-check", "--only-binary", ONLY_WHEELS]
    options += ["--no-user", "--target", str(folder)]  # pip.conf may have user = true
    return [*pip, *options, "--upgrade", "--require-hashes", "-r", str(required)]


def _our_pip() -> list[str]:
    """Return the command of this environment's pip, or if it is too old, of one under .pythons."""
    ours = [sys.executable, "-m", "pip"]
    if _pip_version() >= OLDEST_PIP:
        return ours
    folder = PYTHONS_FOLDER / "pip"
    if not folder.exists():
        newer = f"pip>={'.'.join(map(str, OLDEST_PIP))}"
        argv = [*ours, "install", "--quiet", "--no-user", "--target", str(folder), newer]
        if not _succeeds(argv, INSTALL_TIMEOUT):
            raise MachineError(f"a newer pip cannot be installed: {' '.join(argv)}")
    return [sys.executable, str(folder / "pip")]


def _pip_version() -> tuple[int, ...]:
    """Return the version of this environment's pip; raise MachineError if it has none."""
    try:
        found = re.match(r"(\d+)\.(\d+)", version("pip"))
    except PackageNotFoundError:
        raise no_pip() from None
    return () if found is None else tuple(map(int, found.groups()))


def no_pip() -> MachineError:
    """Return the error for an environment without pip, such as one of uv."""
    return MachineError("this environment has no pip", f"{sys.executable} -m ensurepip adds it")


def _succeeds(argv: list[str], timeout_s: float) -> bool:
    try:
        return subprocess.run(argv, capture_output=True, timeout=timeout_s).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
