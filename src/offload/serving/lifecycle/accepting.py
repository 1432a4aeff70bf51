"""Accepting connections during an overload, and while no descriptor is free for another one.

Tornado accepts up to 128 connections in one iteration of its loop. Then the responses of finished
tasks wait until all of these have been handled.

A connection that cannot be accepted stays in the listen queue, which is therefore ready at once. A
server that tried again without a pause would occupy a CPU.
"""

from __future__ import annotations

import array
import asyncio
import errno
import socket
import sys
from contextlib import suppress
from typing import Any

from offload.serving.lifecycle import log

MOST_AT_ONCE = 16  # connections accepted in one iteration of the loop; a guess
PAUSE = 0.1  # s until the next attempt; a guess
MIN_TTL = {  # options of Linux, by family: IP_MINTTL and IPV6_MINHOPCOUNT
    socket.AF_INET: (socket.IPPROTO_IP, 21),
    socket.AF_INET6: (socket.IPPROTO_IPV6, 73),
}
SO_MEMINFO, MEMINFO_WORDS, MEMINFO_DROPS = 55, 9, 8  # sock_diag.h of Linux
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def is_exhausted(error: OSError) -> bool:
    """Whether a connection could not be accepted because a limit is reached; log it."""
    if error.errno not in EXHAUSTED:
        return False
    log.failure(f"no connection can be accepted: {error.strerror}")
    return True


def set_min_ttl(sock: socket.socket, ttl: int) -> None:
    """Let the kernel drop packets to a socket whose time to live is below `ttl` (Linux)."""
    if sys.platform == "linux":
        with suppress(OSError, KeyError):  # a sandbox may forbid it
            sock.setsockopt(*MIN_TTL[sock.family], ttl)


def dropped(listening: socket.socket) -> int:
    """Return how many packets of clients the kernel dropped because the listen queue was full.

    0 if it is unknown (Linux counts them since 4.12).
    """
    with suppress(OSError, IndexError):
        counts = listening.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 4 * MEMINFO_WORDS)
        return array.array("I", counts)[MEMINFO_DROPS] if sys.platform == "linux" else 0
    return 0


def receive_from(connection: socket.socket) -> None:
    """Receive packets of a connection that began while new ones were dropped: it inherits that.

    The listener may be shared with a process that knows of the stop before this one.
    """
    set_min_ttl(connection, 0)


class ListeningSocket(socket.socket):
    """A listening socket for Tornado: in an iteration of the loop it returns at most MOST_AT_ONCE.

    The loop ignores it for PAUSE when a limit of descriptors is reached. `is_backlogged`: the last
    iteration left connections in the listen queue, so the next ones have waited there.
    """

    is_backlogged = False
    _accepted = 0  # in this iteration
    _is_full = False  # no descriptor was free in this iteration

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection and its address; raise BlockingIOError if there is none now."""
        if self._accepted >= MOST_AT_ONCE:
            raise BlockingIOError(errno.EAGAIN, "the next one is accepted in the next iteration")
        if not self._accepted:
            asyncio.get_running_loop().call_soon(self._begin_iteration)
        self._accepted += 1
        try:
            connection, address = super().accept()
        except OSError as error:
            self._accepted -= 1
            if not is_exhausted(error):
                raise
        else:
            receive_from(connection)
            return connection, address
        self._is_full = True
        self._watch(False)
        asyncio.get_running_loop().call_later(PAUSE, self._watch, True)
        raise BlockingIOError(errno.EAGAIN, "no descriptor is free")

    def _begin_iteration(self) -> None:
        self.is_backlogged = self._is_full or self._accepted >= MOST_AT_ONCE
        self._accepted, self._is_full = 0, False

    def _watch(self, is_watched: bool) -> None:
        from tornado.ioloop import IOLoop  # here: servers of http.server need no Tornado

        if self.fileno() != -1:  # else it was closed
            IOLoop.current().update_handler(self, IOLoop.READ if is_watched else 0)
