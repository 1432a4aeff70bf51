"""A lock between processes: a locked file, which the kernel unlocks when its holders have died."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from offload.errors import StartError

POLL = 0.02  # seconds between two tries: flock itself knows no deadline


@contextlib.contextmanager
def locked(path: Path, deadline_s: float) -> Iterator[int]:
    """Hold the lock on a file and give its descriptor; raise StartError after `deadline_s`.

    A child that inherits the descriptor keeps the lock until it too has ended.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _take(descriptor, path, time.monotonic() + deadline_s)
        yield descriptor
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, until: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise StartError(
                    f"{path} stays locked by another upstream: end it, then try again"
                ) from None
            time.sleep(POLL)
