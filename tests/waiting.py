"""Wait with a deadline for a condition, for the end of a process, or for a line of output."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO

import psutil

SECONDS = 20.0  # default timeout; enough on a busy machine


def wait_until(fact: Callable[[], object], seconds: float = SECONDS) -> bool:
    """Poll a condition until it is true; return False after `seconds`.

    The pauses grow with the time, because many conditions read the whole of /proc.
    """
    started = time.monotonic()
    while not fact():
        if (waited := time.monotonic() - started) > seconds:
            return False
        time.sleep(min(0.1, 0.01 + waited / 10))
    return True


def is_running(process: psutil.Process | int) -> bool:
    """Whether a process has not ended; a zombie has, although its parent did not notice it yet."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(process) if isinstance(process, int) else process
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def read_line(stream: IO[str] | IO[bytes] | None, seconds: float = SECONDS) -> str:
    """Read one line of a process's output, or the rest if the stream ends.

    Reads byte by byte and never past the line, so that the stream can be read afterwards. Raises
    TimeoutError after `seconds` without a whole line.
    """
    assert stream is not None
    line, deadline = b"", time.monotonic() + seconds
    while not line.endswith(b"\n"):
        if not select.select([stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError(f"no line within {seconds} s, only {line!r}")
        if not (byte := os.read(stream.fileno(), 1)):
            break
        line += byte
    return line.decode()
