"""The drain of a listen queue: what waits in it when a stop signal comes is accepted, too."""

from __future__ import annotations

import asyncio
import select
import socket


async def accept_waiting(listening: socket.socket, backlog: int) -> None:
    """Let the loop accept what waits in the listen queue, and not what goes on coming after it."""
    waiting = select.poll()
    waiting.register(listening, select.POLLIN)
    for _ in range(backlog // 128 + 3):  # Tornado accepts 128 in a turn of the loop
        if not waiting.poll(0):
            return
        await asyncio.sleep(0)
