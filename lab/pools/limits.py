"""Upper limits to compare the pools with: a socket pair alone, and an event loop alone."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import time
from collections.abc import Awaitable

AWAKE_S = 0.01  # s without data until the process sleeps, so that other pools can use its CPU


class SocketPair:
    """32 bytes to a forked process that sleeps, and back by `add_reader`.

    No round trip to a sleeping worker can be shorter; one to a worker that polls can.
    """

    concurrencies = (1,)
    pause_ms: int | None = None  # timeout of poll() in the process; None: no timeout

    async def start(self, workers: int) -> None:
        self._socket, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                self._socket.close()
                _echo(theirs, self.pause_ms)
            finally:
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


class AwakePair(SocketPair):
    """The same, but the process polls until 10 ms have passed without data.

    No round trip between an asyncio event loop and another process can be shorter.
    """

    pause_ms = 0


class EventLoop:
    """A future that the loop completes in its next iteration: no pool has a higher rate."""

    concurrencies = (64,)

    async def start(self, workers: int) -> None:
        """Do nothing."""

    def run(self, *_: object) -> Awaitable[None]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        loop.call_soon(future.set_result, None)
        return future

    async def close(self) -> None:
        """Do nothing."""


def _echo(sock: socket.socket, pause_ms: int | None) -> None:
    """Send received data back until the other end is closed."""
    ready = select.poll()  # as in pipepool's workers
    ready.register(sock, select.POLLIN)
    received = time.monotonic()
    while True:
        while not ready.poll(pause_ms):
            if time.monotonic() - received > AWAKE_S:
                ready.poll()
        data = sock.recv(64)
        if not data:
            return
        sock.send(data)
        received = time.monotonic()


LIMITS: dict[str, type[SocketPair] | type[EventLoop]] = {
    "socket pair": SocketPair,
    "awake pair": AwakePair,
    "event loop": EventLoop,
}
