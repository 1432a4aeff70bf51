"""The kind of a user's application, ASGI or WSGI, found by importing it in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass

from offload.bench.target import calling_process, interpreters, server
from offload.bench.target.server import read_lines
from offload.errors import MachineError, StartError


@dataclass(frozen=True)
class ImportedApplication:
    """The kinds of an application, and its name in its module (None for Django settings)."""

    kinds: tuple[str, ...]
    name: str | None


def kinds(work: str, python: str | None = None, path: str | None = None) -> list[str]:
    """Return "asgi", "wsgi" or both for an application such as `shop.web:app`; see `find`."""
    return [*find(work, python, path).kinds]


def find(work: str, python: str | None = None, path: str | None = None) -> ImportedApplication:
    """Return the kinds and the name of an application such as `shop.web:app`.

    `python` and `path` are those of a case. Raise UserError if it cannot be imported.
    """
    interpreter = sys.executable if python is None else interpreters.find(python)
    environment = {**os.environ, **interpreters.environment_with_packages(interpreter, (), work)}
    environment |= interpreters.environment(python)
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
        lines = read_lines(process.stdout.fileno(), time.monotonic() + calling_process.IMPORT_S)
        found = next(lines, None)
    except TimeoutError:
        what = f"{work} was not imported within {calling_process.IMPORT_S:.0f} s"
        raise StartError(what, "check what its import waits for") from None
    except ValueError:
        what = f"importing {work} wrote to the pipe of its process"
        raise StartError(what, "let it write only to descriptors that it opened") from None
    finally:  # do not wait for its threads and processes
        calling_process.end(process)
    if found is None:
        raise StartError(f"importing {work} ended the process", "start it by python")
    if "error" in found:
        raise server.as_error(found)
    return ImportedApplication(tuple(map(str, found["kinds"])), found["name"])
