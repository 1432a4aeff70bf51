"""The memory of a server after a load, and after a full garbage collection in its processes."""

from __future__ import annotations

import signal
import time
from contextlib import suppress

import psutil

from offload.bench.telemetry.processes import ProcessTree
from offload.errors import StartError

LONGEST_S, POLL_S = 3.0, 0.1  # s until a collection has ended; a guess


def measure(pid: int) -> tuple[float | None, float | None]:
    """Return the memory in MiB before and after the collection: private pages, shared ones once.

    None: unknown. A server collects on SIGURG (see serving/metrics/garbage.py).
    """
    try:
        tree = ProcessTree(pid)
    except StartError:  # it has ended
        return None, None
    before = tree.memory()["memory_whole_mib"]
    used_s = tree.cpu_s()
    for process in tree.members:
        with suppress(psutil.Error):
            process.send_signal(signal.SIGURG)
    ends = time.monotonic() + LONGEST_S
    while time.monotonic() < ends:
        time.sleep(POLL_S)
        if used_s == (used_s := tree.cpu_s()):
            break
    return before, tree.memory()["memory_whole_mib"]
