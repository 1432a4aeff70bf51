"""Requests that no HTTP client would send: as bytes, piece by piece, until there is a response."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable

LONGEST_S = 20.0  # until a request without a response or a close counts as unanswered


def send(port: int, pieces: Iterable[bytes], longest_s: float = LONGEST_S) -> int | None:
    """Send a request, and return the status of its response.

    The status is 0 if the connection was closed without a response, and None if there was neither a
    response nor a close in time. Once the server responds, the rest of the request is not sent.
    """
    until = time.monotonic() + longest_s
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=longest_s) as client:
            try:
                for piece in pieces:
                    if select.select([client], [], [], 0)[0]:
                        break
                    client.settimeout(_left(until))
                    client.sendall(piece)
            except ConnectionError:  # the server has closed; its response may have arrived
                pass
            return _status(client, until)
    except TimeoutError:
        return None
    except OSError:
        return 0


def _status(client: socket.socket, until: float) -> int:
    head = b""
    while b"\n" not in head:
        client.settimeout(_left(until))
        received = client.recv(4096)
        if not received:
            break
        head += received
    words = head.split(None, 2)
    is_response = len(words) > 1 and words[0].startswith(b"HTTP/") and words[1].isdigit()
    return int(words[1]) if is_response else 0


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def describe(status: int | None) -> str:
    """Describe the status of `send`."""
    if status is None:
        return "no response"
    return str(status) if status else "closed"
