"""Read lines from a pipe, each of which is a JSON object, with a deadline."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Iterator
from typing import Any


def read_lines(pipe: int, deadline: float) -> Iterator[dict[str, Any]]:
    """Yield each line until all writers have closed the pipe; raise TimeoutError at `deadline`.

    `deadline` is a time of time.monotonic(). An incomplete last line is ignored. Raise ValueError
    for any other text: a user's code in the process may write to all of its descriptors.
    """
    pending = b""
    while True:
        if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        if not (data := os.read(pipe, 1 << 16)):
            return
        *whole, pending = (pending + data).split(b"\n")
        for line in whole:
            if not isinstance(found := json.loads(line), dict):
                raise ValueError(f"{line[:50]!r} is no JSON object")
            yield found
