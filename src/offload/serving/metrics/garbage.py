"""Collect the garbage of a server process when its memory is measured. Standard library only."""

from __future__ import annotations

import gc
import signal
from contextlib import suppress


def collect_on_request() -> None:
    """Run a full collection on SIGURG, which processes without a handler ignore.

    A task that handles this signal replaces the handler; outside the main thread there is none.
    """
    with suppress(ValueError):
        signal.signal(signal.SIGURG, lambda *_: gc.collect())
