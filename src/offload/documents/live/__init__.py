"""The live page of a run or of rows, which a process of its own serves.

Nothing waits for that process after its start, also not who sends it rows.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
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


def open_run(folder: Path, idle_s: float) -> LivePage:
    """Serve the page of a run; raise StartError."""
    return _launch([RUN, str(folder.absolute()), str(idle_s)], subprocess.DEVNULL)


def open_rows(title: str, idle_s: float, descriptor: int) -> LivePage:
    """Serve the page of the rows that come through a pipe; raise StartError."""
    return _launch([ROWS, title, str(idle_s)], descriptor)


def _launch(words: list[str], stdin: int) -> LivePage:
    until = time.monotonic() + DEADLINE
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as ready:
        try:
            between = subprocess.Popen(
                [sys.executable, "-P", "-m", "offload.documents.live.server", *words],
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


class RowsPipe:
    """A page of rows, and the pipe to its server; raise StartError if it does not start.

    A row that the pipe has no room for is left out.
    """

    def __init__(self, title: str, head: Sequence[str], idle_s: float) -> None:
        reading, self._pipe = os.pipe()
        try:
            self.page = open_rows(title, idle_s, reading)
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(reading)
        os.set_blocking(self._pipe, False)
        self._rest = b""
        self._send({"head": [*head]})

    @property
    def url(self) -> str:
        """The address of the page."""
        return self.page.url

    def send(self, row: Sequence[str]) -> None:
        """Send a row."""
        self._send({"row": [*row]})

    def close(self, lines: Sequence[str] = ()) -> None:
        """Send lines that are shown below the rows, and end; the page remains."""
        self._send({"lines": [*lines]})
        os.close(self._pipe)

    def _send(self, values: dict[str, list[str]]) -> None:
        with suppress(OSError):  # it is full, or the server has ended
            self._rest = self._rest[os.write(self._pipe, self._rest) :] if self._rest else b""
            if not self._rest:
                self._rest = json.dumps(values).encode() + b"\n"
                self._rest = self._rest[os.write(self._pipe, self._rest) :]
