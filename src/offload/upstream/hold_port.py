"""The hold port: every open connection that said so is a holder, and its end is known at once."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

FIRST_HOLDER_DEADLINE = 10.0  # seconds


class HoldPort:
    """Count holders on a port of 127.0.0.1 and call `left` when the last of them has gone.

    The talk is three lines: `upstream TOKEN` to whoever connects, `hold` from who wants to hold,
    `held` when it is counted. A connection that does not ask only sees that the upstream lives.
    """

    def __init__(self, left: Callable[[], None]) -> None:
        self.token = secrets.token_hex(16)
        self._left = left
        self._holders = 0
        self._closed = False

    async def open(self) -> int:
        """Listen, and return the port."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def expect(self) -> None:
        """Call `left` too if nobody holds within FIRST_HOLDER_DEADLINE from now."""
        loop = asyncio.get_running_loop()
        loop.call_later(FIRST_HOLDER_DEADLINE, lambda: self._holders or self._left())

    def close(self) -> None:
        """Refuse new holders from now on."""
        self._closed = True
        self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(f"upstream {self.token}\n".encode())
            if await reader.readline() == b"hold\n" and not self._closed:
                await self._hold(reader, writer)
        # Cut off, a line too long, or the end: asyncio prints a traceback for a connection that
        # ends as cancelled (gh-113538, mended in Python 3.11.8 and 3.12.2).
        except (OSError, ValueError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._holders += 1
        try:
            writer.write(b"held\n")
            while await reader.read(4096):  # nothing is said: this waits for its end
                pass
        finally:
            self._holders -= 1
            if self._holders == 0 and not self._closed:  # closed: a successor may serve by now
                self._left()
