"""Read the new lines of a file or a pipe that another process writes; a half line is kept."""

from __future__ import annotations

import os
from pathlib import Path

from offload import files

MOST = 1 << 22  # bytes that are read at once; the rest follows a second later
LONGEST = 1 << 23  # bytes of a line: a longer one is no record, and is skipped


class Lines:
    """Split bytes into lines; the last part waits for its end."""

    def __init__(self) -> None:
        self._rest = b""

    def split(self, content: bytes) -> list[bytes]:
        """Return the lines that are whole now."""
        *whole, self._rest = (self._rest + content).split(b"\n")
        if len(self._rest) > LONGEST:
            self._rest = b""
        return [line for line in whole if line]


class FileTail:
    """The lines that are appended to a file, from its beginning."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = Lines()
        self._offset = 0

    def read(self) -> list[bytes]:
        """Return the lines that are new; none if the file does not exist."""
        try:
            content = files.read(self._path, MOST, self._offset)
        except OSError:
            return []
        self._offset += len(content)
        return self._lines.split(content)


class PipeTail:
    """The lines that come through a pipe; `is_closed` after its end."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._lines = Lines()
        self.is_closed = False

    def read(self) -> list[bytes]:
        """Return the lines that are new, without waiting."""
        found: list[bytes] = []
        while not self.is_closed:
            try:
                content = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                break
            except OSError:
                content = b""
            self.is_closed = not content
            found += self._lines.split(content)
        return found
