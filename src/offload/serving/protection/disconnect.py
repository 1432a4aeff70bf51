"""Drop a request whose client has disconnected, before it starts: nobody would read its response.

A task that was started continues, because no worker can be interrupted safely.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
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
    """The client of a request.

    `respond` sends a response before the handler of the request has ended. While the request waits
    for a worker, `turn` is the future that is done when it may start. `task` is the asyncio task of
    a request that runs on the event loop.
    """

    __slots__ = ("connection", "is_gone", "respond", "task", "turn")  # every request has a client

    def __init__(
        self, connection: socket.socket, respond: Callable[[responses.Answer], object]
    ) -> None:
        self.connection = connection
        self.respond = respond
        self.turn: asyncio.Future[None] | None = None
        self.task: asyncio.Task[Any] | None = None
        self.is_gone = False

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
