"""Start a supervisor in its own process and session, and wait until it is ready."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from pathlib import Path

from offload.errors import StartError
from offload.registry import places

START_DEADLINE = 10.0  # seconds from the start until everything responds


def start(folder: Path, latency_s: float) -> None:
    """Start a supervisor that is not a child of this process, and wait until it is ready.

    Raise StartError with its message if it is not ready within START_DEADLINE.
    """
    until = time.monotonic() + START_DEADLINE
    reading, writing = os.pipe()
    command = [
        sys.executable,
        "-P",
        "-m",
        "offload.upstream",
        "--while-held",
        f"--latency={latency_s}",
    ]
    with os.fdopen(reading, "rb", buffering=0) as ready, (folder / "log").open("wb") as log:
        try:
            between = subprocess.Popen(
                [*command, f"--detached={writing}"],
                cwd=folder,
                env=os.environ | places.import_path() | {"UPSTREAM_FOLDER": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(writing,),
                start_new_session=True,
            )
        finally:
            os.close(writing)
        try:
            message = _read_message(ready.fileno(), until)
            between.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            message = "its parent process did not exit"
        finally:
            between.kill()
            between.wait()
    if message != "ready":
        reason = message or "no message"
        raise StartError(f"the upstream did not start: {reason} (log: {folder / 'log'})")


def _read_message(descriptor: int, until: float) -> str:
    """Read the supervisor's start message: `ready`, or an error in one line."""
    message = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while b"\n" not in message:
            if not selector.select(max(0.0, until - time.monotonic())):
                return f"no message within {START_DEADLINE:g} s"
            if not (more := os.read(descriptor, 1000)):
                break
            message += more
    return message.decode(errors="replace").strip()
