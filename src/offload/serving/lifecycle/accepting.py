"""Accepting connections during an overload, and while no descriptor is free for another one.

Tornado accepts up to 128 connections in one iteration of its loop. Then the responses of finished
tasks wait until all of these have been handled.

A connection that cannot be accepted stays in the listen queue, which is therefore ready at once. A
server that tried again without a pause would occupy a CPU.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

from offload.serving.lifecycle import log

MOST_AT_ONCE = 16  # connections accepted in one iteration of the loop; a guess
PAUSE = 0.1  # s until the next attempt; a guess
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def is_exhausted(error: OSError) -> bool:
    """Whether a connection could not be accepted because a limit is reached; log it."""
    if error.errno not in EXHAUSTED:
        return False
    log.failure(f"no connection can be accepted: {error.strerror}")
    return True


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
            return super().accept()
        except OSError as error:
            self._accepted -= 1
            if not is_exhausted(error):
                raise
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
