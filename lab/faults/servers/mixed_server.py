"""A server that responds to requests in many ways, also wrong ones, and counts its responses."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

OK, NOT_FOUND, ERROR = "ok", "4xx", "5xx"
RESET, CLOSED, PARTIAL, HANG = "reset", "closed", "partial", "hang"
# The kinds of the responses, repeated in this order. A load tool may count RESET, CLOSED and
# PARTIAL as one kind. Its kinds have different numbers, so that swapped counts are detected.
KINDS = (*[OK] * 9, *[ERROR] * 5, *[NOT_FOUND] * 3, *[RESET] * 2, CLOSED, PARTIAL, HANG)
BODY = b"Content-Length: 5\r\nConnection: close\r\n\r\nhello"
RESPONSES = {
    OK: b"HTTP/1.1 200 OK\r\n" + BODY,
    NOT_FOUND: b"HTTP/1.1 404 Not Found\r\n" + BODY,
    ERROR: b"HTTP/1.1 500 Error\r\n" + BODY,
    PARTIAL: b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\nConnection: close\r\n\r\nhello",
}
NO_LINGER = struct.pack("ii", 1, 0)  # close() then resets the connection
BACKLOG = 2048
READY_S = 10.0


class MixedServer:
    """Serves on a free port of 127.0.0.1, in a thread; `counts` are the responses by kind.

    After `limit` requests it listens no more, so that further connections are refused.
    """

    def __init__(self, limit: int | None = None, kinds: Sequence[str] = KINDS) -> None:
        self.counts: Counter[str] = Counter()
        self._limit, self._kinds = limit, kinds
        self._ready, self._numbers = threading.Event(), iter(range(2**40))
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    @property
    def url(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self._port}/"

    def start(self) -> None:
        """Start to listen."""
        self._thread.start()
        if not self._ready.wait(READY_S):
            raise TimeoutError(f"the server was not ready within {READY_S:.0f} s")

    def stop(self) -> None:
        """Close all connections, and end the thread."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0, backlog=BACKLOG)
        self._port: int = self._server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopped.wait()
        self._server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            kind = self._kinds[next(self._numbers) % len(self._kinds)]
            self.counts[kind] += 1
            if self.counts.total() == self._limit:
                self._server.close()
            if kind == HANG:
                await reader.read()  # until the client leaves
            elif kind == RESET:
                connection: socket.socket = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
            elif kind != CLOSED:
                writer.write(RESPONSES[kind])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


@contextmanager
def mixed(limit: int | None = None, kinds: Sequence[str] = KINDS) -> Iterator[MixedServer]:
    """Run a server of mixed responses during the block."""
    server = MixedServer(limit, kinds)
    server.start()
    try:
        yield server
    finally:
        server.stop()
