"""Atomic file writes, and locks of folders."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def replace(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace a file atomically: a reader sees the old content or the new one. Raise OSError.

    `mode` is the file's mode before the umask is applied.
    """
    # O_EXCL with a random name: another user cannot prepare a link at this place, and threads that
    # replace the same file do not write into one temporary file.
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


@contextmanager
def locked(folder: Path, error: Exception) -> Iterator[None]:
    """Lock a folder; raise `error` if another process has locked it.

    The kernel releases the lock when this process ends, however it ends.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise error from None
        yield
    finally:
        os.close(descriptor)
