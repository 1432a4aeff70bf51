"""Send bytes to a server on one connection, and receive its responses until it closes."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from lab.faults.requests import framing, responses
from lab.faults.requests.framing import Request
from lab.faults.requests.responses import Responses

FIRST_S = 0.25  # s for the response to a request that may have none
QUIET_S = 0.05  # s without data until no more responses are expected; a guess
IDLE_S = 0.25  # s for the end of a connection that a server may keep for further requests
QUIET = 2.0  # the same, in times of the first response: it is slow if the server is busy
SIZE = 1 << 16


@dataclass(frozen=True)
class Exchange:
    """What was sent, and what the server did: `has_ended` if it closed the connection in time."""

    requests: tuple[Request, ...]
    responses: Responses
    has_ended: bool

    @property
    def may_stay_open(self) -> bool:
        """Whether the server may keep the connection: every request has a response, none is bad."""
        is_answered = len(self.responses.statuses) >= len(self.requests)
        return is_answered and not any(request.must_refuse for request in self.requests)


def send(port: int, data: bytes, limit_s: float) -> Exchange:
    """Send bytes to a port of 127.0.0.1; raise OSError if it does not accept the connection.

    Wait up to `limit_s` for the response to a valid request, and for a short time for other
    responses: at an end of file, servers may drop requests. Then end the sending half of the
    connection, and read until the server closes it: up to `limit_s` if it must, else IDLE_S.
    """
    requests = framing.read(data)
    with socket.create_connection(("127.0.0.1", port), timeout=limit_s) as client:
        stream = _Stream(client, requests)
        with suppress(OSError):  # the server closed it before it had read all: see its response
            client.sendall(data)
        began = time.monotonic()
        if requests:
            first_s = limit_s if requests[0].is_valid else FIRST_S
            stream.read_until(began + first_s, lambda: bool(stream.parse().statuses))
        quiet_s = (
            max(QUIET_S, QUIET * (time.monotonic() - began)) if stream.parse().statuses else 0.0
        )
        while stream.receive(quiet_s):
            pass
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)
        found = Exchange(requests, stream.parse(), stream.has_ended)
        end_s = IDLE_S if found.may_stay_open else limit_s
        stream.read_until(time.monotonic() + end_s, lambda: False)
        return Exchange(requests, stream.parse(), stream.has_ended)


class _Stream:
    """What a client has received."""

    def __init__(self, client: socket.socket, requests: tuple[Request, ...]) -> None:
        self._client = client
        self._methods = [request.method for request in requests]
        self._received = bytearray()
        self.has_ended = False

    def parse(self) -> Responses:
        """Return the responses so far."""
        return responses.parse(bytes(self._received), self._methods, self.has_ended)

    def receive(self, limit_s: float) -> bool:
        """Receive what arrives next; return False if the stream ended or nothing arrived."""
        if self.has_ended or not select.select([self._client], [], [], max(0.0, limit_s))[0]:
            return False
        try:
            new = self._client.recv(SIZE)
        except OSError:  # a reset: the server closed it without having read all
            new = b""
        self._received += new
        self.has_ended = not new
        return not self.has_ended

    def read_until(self, until: float, is_enough: Callable[[], bool]) -> None:
        """Receive until there is enough, the stream ends, or a time of time.monotonic()."""
        while not is_enough() and self.receive(until - time.monotonic()):
            pass
