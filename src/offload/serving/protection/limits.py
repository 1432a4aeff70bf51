"""What every server limits: the time and the size of a request, its method, and its host.

A client that sends a byte now and then does not extend a deadline. A socket's timeout applies to a
single call. So before each call the reader sets it to the time until the deadline, at most POLL,
and then checks for a stop signal.
"""

from __future__ import annotations

import functools
import io
import os
import re
import socket
import time
from contextlib import suppress

from offload.registry import addresses
from offload.registry.addresses import LONGEST_NAME
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


# Methods: GET runs the task, HEAD runs it and sends no body
ALLOW = "GET, HEAD"  # the value of the Allow header in a 405 response


def is_method_allowed(method: str | None) -> bool:
    """Whether a request with this method may run the task."""
    return method in ("GET", "HEAD")


# The name in the Host header: only this machine's pages may use the server. A page of another site
# can let its own name resolve to 127.0.0.1 (DNS rebinding). To the browser this server is then a
# part of that site: the page could run the task and read /resources/. But the browser sends the
# name of the site in the Host header, so a request with another name than those of the loopback
# interface, or the address of `bind=`, is refused.
#
# The status is 421, Misdirected Request: the server is not configured for the name in the request
# (RFC 9110, 15.5.20). 400 is the status of a request whose Host header is missing or invalid (RFC
# 9112, 3.2). A request without the header is allowed: HTTP/1.0 does not require it, and a browser
# always sends it.
LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
VARIABLE = "SERVER_ALLOWED_HOSTS"  # further names, separated by +
_HOST = re.compile(rf"({addresses.NAME_PATTERN})(:[0-9]*)?", re.IGNORECASE)


def parse_hosts(text: str) -> frozenset[str]:
    """Return the names in `a+b`, in lower case; raise UsageError."""
    return frozenset(addresses.parse_names("allowed_hosts", text, "shop.test+api.test"))


def configured_hosts() -> frozenset[str]:
    """Return the names that are allowed beside those of the loopback interface."""
    return parse_hosts(os.environ.get(VARIABLE, ""))


def is_host_allowed(host: str | None) -> bool:
    """Whether a server may respond to a request with this Host header.

    It is None, or empty under granian, if the request has none.
    """
    return not host or (len(host) <= LONGEST_NAME and _is_known(host))


@functools.lru_cache(64)
def _is_known(host: str) -> bool:
    found = _HOST.fullmatch(host)
    return (
        found is not None
        and found[1].lower() in LOOPBACK_NAMES | configured_hosts() | _own_address()
    )


def _own_address() -> frozenset[str]:
    """Return the address on which the server listens: DNS rebinding needs a name instead."""
    address = addresses.configured_bind()
    return frozenset() if address == addresses.ALL else frozenset({address})
