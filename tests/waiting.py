"""Waiting, always with a deadline: for a fact, for a line."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import IO

SECONDS = 20.0  # for what takes a moment, on a busy machine too


def wait_until(fact: Callable[[], object], seconds: float = SECONDS) -> bool:
    """Ask for a fact until it is true, or return False when the time is up."""
    deadline = time.monotonic() + seconds
    while not fact():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def read_line(stream: IO[str] | IO[bytes] | None, seconds: float = SECONDS) -> str:
    """Read one line of a process's output; what there is of it when the stream ends.

    Reads single bytes and past no line's end, so that the stream itself can be read afterwards.
    Raises TimeoutError when no whole line has come in time.
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
