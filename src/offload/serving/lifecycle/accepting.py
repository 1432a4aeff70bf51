"""Accepting connections while no descriptor is free for another one.

A connection that cannot be accepted stays in the listen queue, which is therefore ready at once. A
server that tried again without a pause would occupy a CPU.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

from offload.serving.lifecycle import log

PAUSE = 0.1  # s until the next attempt; a guess
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def is_exhausted(error: OSError) -> bool:
    """Whether a connection could not be accepted because a limit is reached; log it."""
    if error.errno not in EXHAUSTED:
        return False
    log.failure(f"no connection can be accepted: {error.strerror}")
    return True


class ListeningSocket(socket.socket):
    """A listening socket that Tornado's loop ignores for PAUSE when a limit is reached."""

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection and its address; raise BlockingIOError if there is none now."""
        try:
            return super().accept()
        except OSError as error:
            if not is_exhausted(error):
                raise
        self._watch(False)
        asyncio.get_running_loop().call_later(PAUSE, self._watch, True)
        raise BlockingIOError(errno.EAGAIN, "no descriptor is free")

    def _watch(self, is_watched: bool) -> None:
        from tornado.ioloop import IOLoop  # here: servers of http.server need no Tornado

        if self.fileno() != -1:  # else it was closed
            IOLoop.current().update_handler(self, IOLoop.READ if is_watched else 0)
