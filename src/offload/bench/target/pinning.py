"""Pin a server that a user started to some CPUs while it is loaded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from offload.engine.processes import ProcessTree
from offload.errors import MachineError, StartError


@contextlib.contextmanager
def pinned(pid: int, cpus: Sequence[int]) -> Iterator[None]:
    """Limit all threads of a server's process tree to `cpus`; restore their CPUs afterwards.

    Threads and processes that start during the block inherit the limit. Without `cpus` do nothing.
    """
    before: dict[int, set[int]] = {}
    try:
        for thread in _threads(pid) if cpus else ():
            with contextlib.suppress(ProcessLookupError):  # it has ended
                own = os.sched_getaffinity(thread)
                os.sched_setaffinity(thread, cpus)
                before[thread] = own
    except PermissionError:
        _restore(before)
        what = f"pin=: the server (pid {pid}) belongs to another user"
        raise MachineError(what, "start it as the user who measures") from None
    try:
        yield
    finally:
        if before:
            widest = set().union(*before.values())
            started: list[int] = []
            with contextlib.suppress(StartError):  # the server has ended
                started = _threads(pid)
            _restore({**dict.fromkeys(started, widest), **before})


def _threads(pid: int) -> list[int]:
    """Return the ids of all threads of a process tree."""
    found = []
    for process in ProcessTree(pid).members:
        with contextlib.suppress(OSError):  # it has ended
            found += [int(path.name) for path in Path(f"/proc/{process.pid}/task").iterdir()]
    return found


def _restore(cpus: dict[int, set[int]]) -> None:
    for thread, own in cpus.items():
        with contextlib.suppress(OSError):  # it has ended
            os.sched_setaffinity(thread, own)
