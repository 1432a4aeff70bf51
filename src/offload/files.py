"""Atomic file writes, reads that cannot block, and locks of folders."""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EINVAL
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


def read(path: Path, most: int = -1, start: int = 0) -> bytes:
    """Read a regular file from the byte `start`, at most `most` bytes; raise OSError.

    A file of others may be a pipe without a writer, or a link to a device that has no end.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(EINVAL, "Not a regular file")
        file.seek(start)
        return file.read(most)


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


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
