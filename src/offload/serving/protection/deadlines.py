"""The limits of a request: its deadlines, and the sizes above which it is refused.

A client that sends a byte now and then does not extend a deadline. The timeout of a socket applies
to each single call. A reader of a request therefore gets the time that is left of the request's
deadline as the timeout of its next call.
"""

from __future__ import annotations

import io
import socket
import time

REQUEST = 10.0  # s from the connection until the headers and the body have arrived
RESPONSE = 10.0  # s for the client to receive the response
BODY = 1 << 20  # bytes of a body at most
HEADERS = 100  # lines of headers at most, which is also http.server's limit
LINGER = 1.0  # s for a refused client to stop sending and to read its response
LINGER_BYTES = 1 << 16  # of a refused request that are read


def reader(connection: socket.socket) -> io.BufferedReader:
    """Return a stream of what the client sends; after REQUEST, reading raises TimeoutError."""
    return io.BufferedReader(_Reader(connection, time.monotonic() + REQUEST))


class _Reader(io.RawIOBase):
    def __init__(self, connection: socket.socket, until: float) -> None:
        self._connection, self._until = connection, until

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request was not complete at its deadline")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)
