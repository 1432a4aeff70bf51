"""Standard output and error whose reader may end early, such as `head`.

The rest of the output is discarded and the command continues, so that its exit code is correct and
its measurements are kept. A command that runs until its reader ends checks `has_no_reader`. The
output shows characters that a reader cannot see by their escapes.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from offload.errors import StorageError, escape_hidden

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Discarding(io.FileIO):
    """A file descriptor that discards everything after its first failed write.

    A write fails if the reader has closed the pipe, or if the disk is full. For stdout a full disk
    raises StorageError.
    """

    has_no_reader = False

    def write(self, data: ReadableBuffer, /) -> int | None:  # type: ignore[override]
        """Write bytes; return how many were written or discarded."""
        try:
            return super().write(data)
        except OSError as error:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            self.has_no_reader = isinstance(error, BrokenPipeError)
            if not self.has_no_reader and self.fileno() == 1:
                raise unwritten(error) from None
            return memoryview(data).nbytes


class _Visible(io.TextIOWrapper):
    """A stream in which no name hides characters."""

    def write(self, text: str, /) -> int:
        """Write a text; return the number of its characters."""
        super().write(escape_hidden(text))
        return len(text)


def print_progress(line: str) -> None:
    """Print a line about a step of a command to stderr."""
    print(line, file=sys.stderr, flush=True)


def unwritten(error: OSError) -> StorageError:
    """Return the error for an output that cannot be written, such as to a full disk."""
    return StorageError(f"the output: {error.strerror}", "write it elsewhere")


def tolerate_early_readers() -> None:
    """Replace the real stdout and stderr by streams that discard output without a reader."""
    if sys.stdout is sys.__stdout__:
        sys.stdout = _tolerant(sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _tolerant(sys.stderr)


def open_missing_streams() -> None:
    """Open /dev/null for each closed standard stream, so that no other file has its number.

    Otherwise a pipe to a server could have such a number, which the server's own streams replace.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - as Python's own
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def has_no_reader(stream: TextIO) -> bool:
    """Whether a write to a stream has failed because its reader has ended."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return isinstance(raw, _Discarding) and raw.has_no_reader


def _tolerant(stream: TextIO | None) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper) or has_no_reader(stream):  # it may be closed
        return stream  # type: ignore[return-value]
    stream.flush()
    raw = _Discarding(stream.fileno(), "wb", closefd=False)
    return _Visible(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",  # for letters of file names that the locale does not have
        line_buffering=stream.line_buffering or stream.write_through,  # write_through: python -u
    )
