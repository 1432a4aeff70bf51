"""Read the JSON lines of a server's pipe: one when it is ready, and one when it ends."""

from __future__ import annotations

import os
import shlex
import time
from contextlib import suppress
from typing import IO

import psutil

from offload.bench.target.json_lines import read_lines
from offload.errors import MachineError, StartError, UsageError, UserError, kind_of
from offload.flags import CANNOT_LOAD
from offload.registry import application
from offload.suites import Case

READY = 10.0  # s for a server and its workers to import the task
REPORT = 2.0  # s after READY in which the server may still report its own error
LAST = 1 << 16  # bytes of the end of a process's output that are read
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
    if is_late and _listens(pid):
        why = UNFINISHED if application.is_application(case.task) else UNANNOUNCED
    raise StartError(f"{case.name} {what} ({why})", f"try {shlex.join(['offload', *case.words])}")


def last_lines(log: IO[bytes]) -> list[str]:
    """Return the last lines of a process's output, up to LAST bytes of it."""
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - LAST))
    return log.read().decode(errors="replace").strip().splitlines()


def as_error(line: dict[str, object]) -> UserError:
    """Return the error that a server or a helper process reported as a JSON object."""
    code = int(str(line["exit_code"]))
    error = kind_of(code)(str(line["error"]), str(line.get("remedy", "")))
    # With these exit codes a package or the task cannot be imported.
    if code in (UsageError.exit_code, MachineError.exit_code):
        error.kind = CANNOT_LOAD
    return error


def _listens(pid: int) -> bool:
    """Whether a process or a descendant listens on a TCP port; False if that is unknown."""
    with suppress(psutil.Error):
        server = psutil.Process(pid)
        family = [server, *server.children(recursive=True)]
        found = (one.status for process in family for one in process.net_connections("tcp"))
        return psutil.CONN_LISTEN in found
    return False
