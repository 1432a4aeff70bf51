"""Standard output and error whose reader may end early, such as `head`.

The rest of the output is discarded, and the command goes on: its exit code is its verdict's, and a
run that is measured is kept. A command that runs until its reader ends checks `has_no_reader`.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from offload.errors import StorageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Discarding(io.FileIO):
    """A file descriptor that discards everything after its first failed write.

    The reader has closed the pipe, or the disk is full. A full disk below stdout raises
    StorageError.
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


def unwritten(error: OSError) -> StorageError:
    """Return the error for an output that cannot be written, such as to a full disk."""
    return StorageError(f"the output: {error.strerror}", "write it elsewhere")


def tolerate_early_readers() -> None:
    """Replace stdout and stderr by streams that discard what nobody reads; only the real ones."""
    if sys.stdout is sys.__stdout__:
        sys.stdout = _tolerant(sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _tolerant(sys.stderr)


def open_missing_streams() -> None:
    """Open /dev/null for each standard stream that is closed, so that no other file is there.

    A pipe to a server would lose its number to the server's own streams.
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
    """Whether the reader of a stream has ended, as far as writing has shown."""
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    return isinstance(raw, _Discarding) and raw.has_no_reader


def _tolerant(stream: TextIO | None) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper) or has_no_reader(stream):  # it may be closed
        return stream  # type: ignore[return-value]
    stream.flush()
    raw = _Discarding(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",  # a locale may lack a letter of a file's name
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
