"""Drain the listen queue: connections that wait in it at a stop signal are accepted."""

from __future__ import annotations

import asyncio
import select
import socket


async def accept_waiting(listening: socket.socket, backlog: int) -> None:
    """Let the loop accept the connections in the listen queue, but not an endless stream."""
    waiting = select.poll()
    waiting.register(listening, select.POLLIN)
    for _ in range(backlog // 128 + 3):  # Tornado accepts 128 per loop iteration
        if not waiting.poll(0):
            return
        await asyncio.sleep(0)
