"""A task that holds the GIL for part of its time, and returns the address of its process's GIL."""

from __future__ import annotations

import functools
import json
import time

from offload.serving.metrics import own_gil

HELD_S, RELEASED_S = 0.002, 0.004


def hold_gil() -> str:
    """Hold the GIL for 2 ms, release it for 4 ms, and return the GIL facts of this process."""
    facts = _facts()
    until = time.monotonic() + HELD_S
    while time.monotonic() < until:
        pass
    time.sleep(RELEASED_S)
    return facts


@functools.cache  # verifying the GIL requires that the first request runs alone
def _facts() -> str:
    return json.dumps(own_gil.address_facts())
