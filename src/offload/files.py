"""Atomic file writes, reads that cannot block, strict JSON, and locks of folders."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EFBIG, EINVAL
from pathlib import Path
from typing import Any, TypeVar

Number = TypeVar("Number", int, float)
LARGEST = 1e20  # number in a file: larger than any measured value in any unit
DEEPEST = 40  # levels in a file: far more than this program writes
TOO_DEEP = "it is nested too deeply"
MAX_MIB = 256  # of a file that is read whole: 20 times the largest record file so far


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


def read(path: Path, most: int | None = None, start: int = 0, max_mib: int = MAX_MIB) -> bytes:
    """Read a regular file from the byte `start`, at most `most` bytes; raise OSError.

    A file of others may be a pipe without a writer, or a link to a device that has no end. Without
    `most`, a file of more than `max_mib` is an error.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(EINVAL, "Not a regular file")
        if most is None and found.st_size > max_mib << 20:
            raise OSError(EFBIG, f"Larger than {max_mib} MiB")
        file.seek(start)
        return file.read(max_mib << 20 if most is None else most)


def parse_json(text: str | bytes) -> Any:
    """Parse JSON strictly; raise ValueError also for NaN, repeated keys and too deep nesting.

    A number beyond LARGEST is an error, too.
    """
    try:
        values = json.loads(
            text,
            parse_float=lambda word: _plausible(float(word), word),
            parse_int=lambda word: _plausible(int(word), word),
            parse_constant=_refuse,
            object_pairs_hook=_object,
        )
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    level = [values]
    for _ in range(DEEPEST):
        level = [part for value in level for part in _parts(value)]
    if level:
        raise ValueError(TOO_DEEP)
    return values


def _parts(value: object) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _plausible(value: Number, word: str) -> Number:
    return value if abs(value) <= LARGEST else _refuse(word[:40])


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not a valid number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in found if keys.count(key) > 1)
        raise ValueError(f"the key {repeated[:40]!r} is repeated")
    return found


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
