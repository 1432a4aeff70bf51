"""Wait until something is true, by checking it repeatedly."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_S = 0.01


def wait_until(is_true: Callable[[], bool], limit_s: float, poll_s: float = POLL_S) -> float | None:
    """Return the seconds until something is true; None if it was not within the limit."""
    began = time.monotonic()
    while not is_true():
        if time.monotonic() - began > limit_s:
            return None
        time.sleep(poll_s)
    return time.monotonic() - began
