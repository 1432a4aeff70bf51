"""Processes that import a user's function or application, and call a task without a server.

A calling process reads lines from stdin and prints JSON lines. `check_imports` imports the work of
all cases before a run.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from offload.engine import journal, server
from offload.engine.application import Started
from offload.engine.record import dataclass_from
from offload.engine.server import (
    environment_with_packages,
    find_interpreter,
    gil_environment,
    read_lines,
)
from offload.errors import MachineError, StartError, UserError, kind_of
from offload.registry import catalog, places
from offload.suites import Case

IMPORT_S = 30.0  # s for the import of a function or application of a user
GRACE = 2.0  # s in which the process may end by itself, and again after SIGTERM
REAP = 1.0  # s in which the other processes of its group may end by themselves
POLL = 0.01  # s
ERROR = "error: "  # prefix of the line on stderr in which the process reports why it ends
PREFIX = "calls-"  # of folders, before the pid of the parent
OWNED = re.compile(PREFIX + r"([1-9]\d{0,8})-")


class CallTimeout(StartError):
    """The calls of a request did not end in time."""


class CallingProcess:
    """A running process; `facts` is the first line that it printed, and `log` its stderr."""

    def __init__(self, process: subprocess.Popen[bytes], task: str, log: IO[bytes]) -> None:
        self._process = process
        self._task = places.display_name(task)
        self._log = log
        self.pid = process.pid
        self.facts: dict[str, Any] = {}

    def request(self, line: str, seconds: float) -> dict[str, Any]:
        """Send a line and return the response; see `read` for the errors."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # `read` reports the end of the process
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        return self.read(seconds)

    def read(self, seconds: float) -> dict[str, Any]:
        """Read one line of JSON; raise CallTimeout after `seconds`, StartError at its end."""
        assert self._process.stdout is not None
        pipe, deadline = self._process.stdout.fileno(), time.monotonic() + seconds
        try:
            for line in read_lines(pipe, deadline, skip_preamble=not self.facts):
                return line
        except TimeoutError:
            raise CallTimeout(f"{self._doing()} did not end within {seconds:.0f} s") from None
        except ValueError:
            raise StartError(f"{self._task} wrote to the pipe of its calling process") from None
        reported = [line for line in self.last_lines() if line.startswith(ERROR)]
        if reported:
            raise self.kind_of_error()(reported[-1].removeprefix(ERROR))
        raise StartError(f"{self._doing()} ended the process{self._exit_reason()}")

    def last_lines(self) -> list[str]:
        """Return the last lines of the process's stderr."""
        return server.last_lines(self._log)

    def kind_of_error(self) -> type[UserError]:
        """Return the kind of the error that the process reported, by its exit code."""
        try:
            return kind_of(self._process.wait(REAP))
        except subprocess.TimeoutExpired:
            return StartError

    def _doing(self) -> str:
        """What the process does now: it imports the task before it prints the facts."""
        return f"{'calling' if self.facts else 'importing'} {self._task}"

    def _exit_reason(self) -> str:
        """Return the exit code of the process or the signal that killed it, in parentheses."""
        try:
            code = self._process.wait(REAP)
        except subprocess.TimeoutExpired:  # it only closed its output
            return ""
        if code >= 0:
            return f" (exit code {code})"
        known = {each.value: each.name for each in signal.Signals}
        return f" ({known.get(-code, f'signal {-code}')})"


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

    `path` is the folder from which a user's task is imported. Raise the error that the process
    reports, or StartError if it is not ready within `ready_s`.
    """
    program = sys.executable if python is None else find_interpreter(python)
    entry = catalog.find_task(task, path)
    needed = environment_with_packages(program, entry.packages)
    added = {**environment, **needed, **gil_environment(python)}
    added["SERVER_DIES_WITH"] = str(os.getpid())
    if path is not None:
        added["TASK_PATH"] = path
    with _folder_and_log() as (folder, log):
        added["CALLS_FOLDER"] = folder
        try:
            process = subprocess.Popen(
                [program, "-P", "-m", module, entry.name, *arguments],
                env={**os.environ, **added},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # a new group, in case the task sends signals to its group
            )
        except OSError as error:
            what = f"{program} does not start: {error.strerror}"
            raise MachineError(what, "offload pythons lists interpreters that do") from error
        try:
            running = CallingProcess(process, entry.name, log)
            running.facts = _ready(running, ready_s)
            yield running
        finally:
            end(process)


@contextmanager
def _folder_and_log() -> Iterator[tuple[str, IO[bytes]]]:
    """Create a temporary folder and a log file, and remove both at the end; raise MachineError."""
    try:
        _remove_stale_folders()
        prefix = f"{PREFIX}{os.getpid()}-"
        folder = tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    except OSError as error:
        raise server.temporary_file_error(error) from error
    with folder, server.create_temporary_file() as log:
        yield folder.name, log


def _remove_stale_folders() -> None:
    """Remove the folders of parent processes that were killed before they could remove them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        found = OWNED.match(folder.name)
        with suppress(OSError):  # another process has removed it
            is_own = folder.lstat().st_uid == os.getuid()
            if found and is_own and not psutil.pid_exists(int(found[1])):
                shutil.rmtree(folder, ignore_errors=True)


def _ready(running: CallingProcess, seconds: float) -> dict[str, Any]:
    try:
        return running.read(seconds)
    except StartError as error:
        lines = running.last_lines()
        reported = [line for line in lines if line.startswith(ERROR)]  # a task may print others
        if reported:
            raise running.kind_of_error()(reported[-1].removeprefix(ERROR)) from None
        printed = f"; its last line is {lines[-1][: server.LONGEST_LINE]!r}" if lines else ""
        raise StartError(f"{error}{printed}", "import it in python to find the cause") from None


def end(process: subprocess.Popen[bytes]) -> None:
    """Close the process's input, so that it removes its files and exits, then kill its group.

    SIGTERM ends a call that lasts longer than GRACE. The output is closed without reading it to its
    end, because processes that the task started may keep it open.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(BrokenPipeError):
            process.stdin.close()
        if not _has_ended(process):
            process.terminate()
            _has_ended(process)
    finally:
        _kill_group(process.pid)
        process.wait()
        process.stdout.close()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait for the end of a process; return False after GRACE."""
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        return False
    return True


def _kill_group(group: int) -> None:
    """Kill the processes of a group after REAP, in which multiprocessing can remove its files."""
    until = time.monotonic() + REAP
    while _has_members(group) and time.monotonic() < until:
        time.sleep(POLL)  # a group cannot be waited for
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _has_members(group: int) -> bool:
    with suppress(ChildProcessError):
        while os.waitpid(-group, os.WNOHANG)[0]:  # orphans that this process has adopted
            pass
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@dataclass(frozen=True)
class ImportedApplication:
    """The kinds of an application, and its name in its module (None for Django settings).

    With `has_tokens` its `def` endpoints run in anyio's threads, as those of Starlette do.
    `started` are the servers, processes or threads that its import started.
    """

    kinds: tuple[str, ...]
    name: str | None
    has_tokens: bool = False
    started: tuple[Started, ...] = ()


def find_application(
    work: str, python: str | None = None, path: str | None = None
) -> ImportedApplication:
    """Return the kinds and the name of an application such as `shop.web:app`.

    `python` and `path` are those of a case. Raise UserError if it cannot be imported.
    """
    interpreter = sys.executable if python is None else find_interpreter(python)
    environment = {**os.environ, **environment_with_packages(interpreter, (), work)}
    environment |= gil_environment(python)
    if path is not None:
        environment["TASK_PATH"] = path
    argv = [interpreter, "-P", "-m", "offload.serving.application_kind", work]
    environment["SERVER_DIES_WITH"] = str(os.getpid())
    try:
        process = subprocess.Popen(
            argv,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a new group, with the processes that the application starts
        )
    except OSError as error:
        what = f"{interpreter} does not start: {error.strerror}"
        raise MachineError(what, "offload pythons lists those that do") from error
    assert process.stdout is not None
    try:
        deadline = time.monotonic() + IMPORT_S
        found = next(read_lines(process.stdout.fileno(), deadline, skip_preamble=True), None)
    except TimeoutError:
        what = f"{work} was not imported within {IMPORT_S:.0f} s"
        raise StartError(what, "check what its import waits for") from None
    except ValueError:
        what = f"importing {work} wrote to the pipe of its process"
        raise StartError(what, "let it write only to descriptors that it opened") from None
    finally:  # do not wait for its threads and processes
        end(process)
    if found is None:
        raise StartError(f"importing {work} ended the process", "start it by python")
    if "error" in found:
        raise server.as_error(found)
    return dataclass_from(ImportedApplication, found)


def check_imports(cases: Iterable[Case]) -> None:
    """Raise UserError if a user's own work of a case cannot be imported, or lacks arguments.

    The code of another checkout is not imported: its server reports such an error.
    """
    here = [case for case in cases if case.origin is None]
    own = {(case.task, case.python, case.path) for case in here if catalog.is_own(case.task)}
    for work, python, path in sorted(own, key=str):
        if catalog.is_application(work):
            for each in find_application(work, python, path).started:
                if each.is_thread:
                    continue
                what = "a server" if each.ports else f"{each.count} processes"
                place = f"{each.file}:{each.line}"
                journal.warn_once(f"importing {work} starts {what} ({place}) in each process")
            continue
        module = "offload.serving.task_probe"
        with start(module, work, python=python, path=path, environment={}, ready_s=IMPORT_S):
            pass
