"""A lock between processes: a locked file, which the kernel unlocks when its holders end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from offload.errors import StartError

POLL = 0.02  # seconds between two tries: flock has no timeout


@contextlib.contextmanager
def locked(path: Path, deadline_s: float) -> Iterator[int]:
    """Hold the lock on a file and yield its descriptor; raise StartError after `deadline_s`.

    A child that inherits the descriptor keeps the lock until the child ends.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _acquire(descriptor, path, time.monotonic() + deadline_s)
        yield descriptor
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, until: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise StartError(
                    f"{path} is locked by another upstream", "stop it, then retry"
                ) from None
            time.sleep(POLL)
