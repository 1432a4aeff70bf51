"""Starting: a supervisor in a process and a session of its own, ready when this returns."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from pathlib import Path

from offload.errors import StartError
from offload.registry import places

START_DEADLINE = 10.0  # seconds from the start until everything answers


def start(folder: Path, latency_s: float) -> None:
    """Start a supervisor that is no child of this process and wait until it is ready.

    Raise StartError with what it said if it is not ready within START_DEADLINE.
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
            said = _said(ready.fileno(), until)
            between.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            said = "it did not leave its starter"
        finally:
            between.kill()
            between.wait()
    if said != "ready":
        raise StartError(f"the upstream did not start: {said or 'no word'} (log: {folder / 'log'})")


def _said(descriptor: int, until: float) -> str:
    """Read what the supervisor says of its start: `ready`, or what went wrong in one line."""
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while b"\n" not in said:
            if not selector.select(max(0.0, until - time.monotonic())):
                return f"no answer within {START_DEADLINE:g} s"
            if not (more := os.read(descriptor, 1000)):
                break
            said += more
    return said.decode(errors="replace").strip()
