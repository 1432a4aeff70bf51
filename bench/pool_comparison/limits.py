"""Upper limits to compare the pools with: a socket pair alone, and an event loop alone."""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Awaitable


class SocketPair:
    """32 bytes to a forked process that sleeps, and back by `add_reader`.

    No round trip to a sleeping worker can be shorter; one to a worker that polls can.
    """

    flights = (1,)

    async def start(self, workers: int) -> None:
        self._socket, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            self._socket.close()
            ready = select.poll()
            ready.register(theirs, select.POLLIN)
            while ready.poll() and (data := theirs.recv(64)):  # in the way pipepool's workers wait
                theirs.send(data)
            os._exit(0)
        theirs.close()
        self._socket.setblocking(False)
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    def _read(self) -> None:
        self._socket.recv(64)
        self._future.set_result(None)

    def run(self, *_: object) -> Awaitable[None]:
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._socket.send(b"-" * 32)
        return self._future

    async def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        os.waitpid(self._pid, 0)


class EventLoop:
    """A future that the loop completes in its next iteration: no pool has a higher rate."""

    flights = (64,)

    async def start(self, workers: int) -> None:
        """Do nothing."""

    def run(self, *_: object) -> Awaitable[None]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        loop.call_soon(future.set_result, None)
        return future

    async def close(self) -> None:
        """Do nothing."""


LIMITS: dict[str, type[SocketPair] | type[EventLoop]] = {
    "socket pair": SocketPair,
    "event loop": EventLoop,
}
