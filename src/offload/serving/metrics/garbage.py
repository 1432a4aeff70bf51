"""What a server process does on request: collect its garbage. Standard library only."""

from __future__ import annotations

import gc
import signal
from contextlib import suppress

from offload.serving.metrics import tracer


def collect_on_request() -> None:
    """Run a full collection on SIGURG, which processes without a handler ignore.

    It also lets the process that started this server read its stacks, if it asks for that.

    A task that handles this signal replaces the handler; outside the main thread there is none.
    """
    with suppress(ValueError):
        signal.signal(signal.SIGURG, _handle)


def _handle(*_: object) -> None:
    gc.collect()
    tracer.update()
