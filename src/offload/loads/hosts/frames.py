"""Frames: the messages between the machine that measures and the agent on a host.

A frame is a head (kind, CRC-32 and length of its content) and its content. An agent sends MAGIC
before its first frame: whatever precedes it was printed by the host's login shell.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

MAGIC = b"\0offload load host\n"
HEAD = struct.Struct("!4sII")
MOST = 1 << 20  # bytes of the content of a frame
PREAMBLE = 1 << 16  # bytes before MAGIC

HELLO, PING, PONG = b"HELO", b"PING", b"PONG"  # facts of the host; exchanges of time stamps
LOAD, READY, START = b"LOAD", b"REDY", b"STRT"  # prepare a share, it is prepared, agreed times
DATA, DONE, FAIL, END = b"DATA", b"DONE", b"FAIL", b"END_"  # samples, their hash, an error, the end


class BadFrameError(ValueError):
    """The other side sent something that is not a frame."""


class Frame(NamedTuple):
    """A received frame."""

    kind: bytes
    content: bytes


def pack(kind: bytes, content: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    return HEAD.pack(kind, zlib.crc32(content), len(content)) + content


class FrameReader:
    """Reads frames from a stream.

    `receive` returns some bytes, or none at the end of the stream. It may raise an error such as
    TimeoutError: what was received is kept, and the next call continues.
    """

    def __init__(self, receive: Callable[..., bytes]) -> None:
        self._receive = receive
        self._data = bytearray()

    def skip_preamble(self, *arguments: Any) -> bytes | None:
        """Read up to MAGIC and return what was before it; None if the stream ends without it."""
        while MAGIC not in self._data:
            if len(self._data) > PREAMBLE or not self._fill(*arguments):
                return None
        before, _, rest = bytes(self._data).partition(MAGIC)
        self._data = bytearray(rest)
        return before

    @property
    def rest(self) -> bytes:
        """The bytes that were received and not yet returned."""
        return bytes(self._data)

    def next(self, *arguments: Any) -> Frame | None:
        """Return the next frame, or None at the end; raise BadFrameError.

        `arguments` are those of `receive`.
        """
        while len(self._data) < HEAD.size:
            if not self._fill(*arguments):
                self._check_end()
                return None
        kind, checksum, length = HEAD.unpack_from(self._data)
        if length > MOST:
            raise BadFrameError(f"a frame has {length} bytes")
        while len(self._data) < HEAD.size + length:
            if not self._fill(*arguments):
                self._check_end()
                return None
        content = bytes(self._data[HEAD.size : HEAD.size + length])
        del self._data[: HEAD.size + length]
        if zlib.crc32(content) != checksum:
            raise BadFrameError("a frame was damaged")
        return Frame(kind, content)

    def _fill(self, *arguments: Any) -> bool:
        received = self._receive(*arguments)
        self._data += received
        return bool(received)

    def _check_end(self) -> None:
        """Raise BadFrameError if the stream ended within a frame."""
        if self._data:
            raise BadFrameError("the stream ended within a frame")
