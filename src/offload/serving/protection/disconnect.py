"""Drop a request whose client has disconnected, before it starts: nobody would read its response.

A task that was started continues, because no worker can be interrupted safely.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any

from offload.serving.applications import responses
from offload.serving.protection.waiting import Dropped

CLOSE_WAIT = 8  # tcpi_state in Linux's struct tcp_info: the peer has closed its end


def has_closed(connection: socket.socket) -> bool:
    """Whether the peer has closed its end, also if data is unread; False where that is unknown."""
    if not hasattr(socket, "TCP_INFO"):
        return False
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == CLOSE_WAIT
    except OSError:  # it was closed
        return True


class Client:
    """The client of a request: a base class of request handlers.

    While the request waits for a worker, `turn` is the future that is done when it may start.
    `task` is the asyncio task of a request that runs on the event loop.
    """

    turn: asyncio.Future[None] | None = None
    task: asyncio.Task[Any] | None = None
    is_gone = False

    @property
    def connection(self) -> socket.socket:
        """The connection of the request."""
        raise NotImplementedError

    def respond(self, answer: responses.Answer) -> None:
        """Send a response before the handler of the request has ended."""
        raise NotImplementedError

    def note_disconnect(self) -> None:
        """Note that the connection has been closed, and drop the request if it waits."""
        self.is_gone = True
        if self.turn is not None and not self.turn.done():
            self.turn.set_exception(Dropped())

    def has_left(self) -> bool:
        """Whether the client has disconnected, also while the event loop was blocked."""
        if self.is_gone:
            return True
        with suppress(BlockingIOError):  # connected, and nothing to read
            try:
                return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except ConnectionError:
                return True
        return False
