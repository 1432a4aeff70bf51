"""The kind of a user's application, ASGI or WSGI, found by importing it in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from offload.bench.target import handshake, interpreters, packages
from offload.errors import MachineError, StartError

TIMEOUT = 60.0  # s for the import of an application


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
    environment = {**os.environ, **packages.environment(interpreter, (), work)}
    environment |= interpreters.environment(python)
    if path is not None:
        environment["TASK_PATH"] = path
    argv = [interpreter, "-P", "-m", "offload.serving.application_kind", work]
    try:
        ended = subprocess.run(
            argv, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        what = f"{work} was not imported within {TIMEOUT:.0f} s"
        raise StartError(what, "check what its import waits for") from None
    except OSError as error:
        what = f"{interpreter} does not start: {error.strerror}"
        raise MachineError(what, "fab pythons lists those that do") from error
    lines = ended.stdout.decode(errors="replace").strip().splitlines()
    try:
        found = json.loads(lines[-1])  # the application may print lines before
    except (IndexError, ValueError):
        raise StartError(f"importing {work} ended the process", "start it by python") from None
    if "error" in found:
        raise handshake.as_error(found)
    return ImportedApplication(tuple(map(str, found["kinds"])), found["name"])
