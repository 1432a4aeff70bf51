"""Standard output and error whose reader may end early, such as `head`.

The rest of the output is discarded, and the command goes on: its exit code is its verdict's, and a
run that is measured is kept. A command that runs until its reader ends asks `has_no_reader`.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Discarding(io.FileIO):
    """A file descriptor that discards everything once its reader has closed the pipe."""

    has_no_reader = False

    def write(self, data: ReadableBuffer, /) -> int | None:  # type: ignore[override]
        """Write bytes; return how many were written or discarded."""
        try:
            return super().write(data)
        except BrokenPipeError:
            self.has_no_reader = True
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            return memoryview(data).nbytes


def tolerate_early_readers() -> None:
    """Replace stdout and stderr by streams that discard what nobody reads; only the real ones."""
    if sys.stdout is sys.__stdout__:
        sys.stdout = _tolerant(sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _tolerant(sys.stderr)


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
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
