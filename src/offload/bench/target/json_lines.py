"""JSON lines from a pipe, read within a time."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Iterator
from typing import Any


def read_lines(pipe: int, deadline: float) -> Iterator[dict[str, Any]]:
    """Yield each line until the last writer is gone; raise TimeoutError at the deadline.

    `deadline` is of time.monotonic(). A line that breaks off at the end is left out.
    """
    pending = b""
    while True:
        if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        if not (data := os.read(pipe, 1 << 16)):
            return
        *whole, pending = (pending + data).split(b"\n")
        yield from map(json.loads, whole)
