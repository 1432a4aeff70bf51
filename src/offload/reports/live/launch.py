"""Start the server of the page as a process of its own, for which nothing waits afterwards."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from offload.errors import StartError
from offload.registry import places

READY = "ready "  # it prints the line `ready PID URL`, or an error
RUN, ROWS = "run", "rows"  # the words: `run FOLDER IDLE_S`, or `rows TITLE IDLE_S` from stdin
READY_LINE = re.compile(f"^{READY}.*\n".encode(), re.MULTILINE)
DEADLINE = 10.0  # s from the start until it serves


@dataclass(frozen=True)
class LivePage:
    """A page that is served: its address, and the process that serves it."""

    url: str
    pid: int


def of_run(folder: Path, idle_s: float) -> LivePage:
    """Serve the page of a run; raise StartError."""
    return _launch([RUN, str(folder.absolute()), str(idle_s)], subprocess.DEVNULL)


def of_rows(title: str, idle_s: float, descriptor: int) -> LivePage:
    """Serve the page of the rows that come through a pipe; raise StartError."""
    return _launch([ROWS, title, str(idle_s)], descriptor)


def _launch(words: list[str], stdin: int) -> LivePage:
    until = time.monotonic() + DEADLINE
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as ready:
        try:
            between = subprocess.Popen(
                [sys.executable, "-P", "-m", "offload.reports.live", *words],
                env=os.environ | places.import_path(),
                stdin=stdin,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
            )
        finally:
            os.close(writing)
        message = ""
        try:
            message = _read_line(ready.fileno(), until)
        finally:
            if not message.startswith(READY):
                with suppress(ProcessLookupError):
                    os.killpg(between.pid, signal.SIGKILL)
            between.wait()  # it ends when it has forked the server
    if not message.startswith(READY):
        raise StartError(f"the live page did not start: {message or 'no message'}")
    pid, url = message.removeprefix(READY).split()
    return LivePage(url, int(pid))


def _read_line(descriptor: int, until: float) -> str:
    """Read the line READY, which warnings may precede, or else the last line, which is an error."""
    message = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while (found := READY_LINE.search(message)) is None:
            if not selector.select(max(0.0, until - time.monotonic())):
                return f"no message within {DEADLINE:g} s"
            if not (more := os.read(descriptor, 4096)):
                return (message.decode(errors="replace").strip().splitlines() or [""])[-1]
            message += more
    return found[0].decode().strip()
