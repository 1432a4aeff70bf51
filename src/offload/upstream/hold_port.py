"""The hold port: each connection that sends `hold` is a holder, until it closes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

FIRST_HOLDER_DEADLINE = 10.0  # seconds


class HoldPort:
    """Count holders on a port of 127.0.0.1, and call `on_idle` when the last one has closed.

    The protocol is three lines: `upstream TOKEN` to each client, `hold` from a holder, `held` once
    it is counted. A client that sends nothing only checks that the upstream is running.
    """

    def __init__(self, on_idle: Callable[[], None]) -> None:
        self.token = secrets.token_hex(16)
        self._on_idle = on_idle
        self._holders = 0
        self._closed = False

    async def open(self) -> int:
        """Listen on a free port and return it."""
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def expect(self) -> None:
        """Also call `on_idle` if there is no holder within FIRST_HOLDER_DEADLINE from now."""
        loop = asyncio.get_running_loop()
        loop.call_later(FIRST_HOLDER_DEADLINE, lambda: self._holders or self._on_idle())

    def close(self) -> None:
        """Refuse new holders from now on."""
        self._closed = True
        self._server.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(f"upstream {self.token}\n".encode())
            if await reader.readline() == b"hold\n" and not self._closed:
                await self._hold(reader, writer)
        # A reset, an overlong line or the end; asyncio prints a traceback for a connection that is
        # cancelled (gh-113538, fixed in Python 3.11.8 and 3.12.2).
        except (OSError, ValueError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._holders += 1
        try:
            writer.write(b"held\n")
            while await reader.read(4096):  # the client sends nothing more: wait for its end
                pass
        finally:
            self._holders -= 1
            if self._holders == 0 and not self._closed:  # if closed, a successor may be serving
                self._on_idle()
