"""The receiving end of a socket: bytes become frames, at any size and however they are cut."""

from __future__ import annotations

import pickle
import socket

from executors._wire import HEADER, Entry

SIZE = 64 << 10  # bytes of the buffer for ordinary frames; a larger frame gets one of its own
HEAD = HEADER.size

Frame = tuple[list[Entry], memoryview]


class Inbox:
    """Receive from one socket, blocking or not."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._own = memoryview(bytearray(SIZE))
        self._buffer = self._own
        self._filled = 0

    def receive(self) -> list[Frame] | None:
        """Receive once and give the frames that are complete, perhaps none; None at the end.

        The views in a frame hold until the next call, those of a frame with a blob for ever.
        Raises BlockingIOError on a non-blocking socket that has nothing.
        """
        try:
            got = self._socket.recv_into(self._buffer[self._filled :])
        except ConnectionResetError:
            return None
        if not got:
            return None
        self._filled += got
        return self._frames()

    def _frames(self) -> list[Frame]:
        frames: list[Frame] = []
        buffer, filled, at = self._buffer, self._filled, 0
        while filled - at >= HEAD:
            envelope, blob = HEADER.unpack_from(buffer, at)
            begin = at + HEAD
            middle, end = begin + envelope, begin + envelope + blob
            if end > filled:
                if end - at > len(buffer):
                    self._grow(at, end - at)
                    return frames
                break
            view = buffer[middle:end]
            if blob and buffer is self._own:  # the next frame would overwrite what is leased
                view = memoryview(bytes(view))
            frames.append((pickle.loads(buffer[begin:middle]), view))  # noqa: S301
            at = end
        if buffer is not self._own and at:
            self._buffer = self._own
            self._own[: filled - at] = buffer[at:filled]
        elif at and at < filled:
            buffer[: filled - at] = bytes(buffer[at:filled])
        self._filled = filled - at
        return frames

    def _grow(self, at: int, size: int) -> None:
        larger = memoryview(bytearray(size))
        self._filled -= at
        larger[: self._filled] = self._buffer[at : at + self._filled]
        self._buffer = larger
