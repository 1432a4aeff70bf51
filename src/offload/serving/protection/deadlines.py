"""The limits of a request: its deadlines, and the sizes above which it is refused.

A client that sends a byte now and then does not extend a deadline. A socket's timeout applies to a
single call. So before each call the reader sets it to the time until the deadline, at most POLL,
and then checks for a stop signal.
"""

from __future__ import annotations

import io
import socket
import time
from contextlib import suppress

from offload.serving.lifecycle.stop_signal import stop

REQUEST = 10.0  # s from the connection until the headers and the body have arrived
STOPPED = 0.5  # s for it to arrive after a stop signal; a guess
POLL = 0.1  # s between two checks for a stop signal
RESPONSE = 10.0  # s for the client to receive the response
BODY = 1 << 20  # bytes of a body at most
HEADERS = 100  # lines of headers at most, which is also http.server's limit
LINGER = 1.0  # s for a refused client to stop sending and to read its response
LINGER_BYTES = 1 << 16  # of a refused request that are read


def reader(connection: socket.socket) -> io.BufferedReader:
    """Return a stream of what the client sends; after REQUEST, reading raises TimeoutError.

    After a stop signal the limit is STOPPED, because the request has not been accepted yet.
    """
    return io.BufferedReader(_Reader(connection))


class _Reader(io.RawIOBase):
    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._since = connection, time.monotonic()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while (left := self._deadline() - time.monotonic()) > 0:
            self._connection.settimeout(min(left, POLL))
            with suppress(TimeoutError):
                return self._connection.recv_into(buffer)
        raise TimeoutError("the request was not complete at its deadline")

    def _deadline(self) -> float:
        whole = self._since + REQUEST
        return whole if stop.at is None else min(whole, max(self._since, stop.at) + STOPPED)
