"""ASGI without a framework: a client that connects for each request. Seeded: new_connections."""

from __future__ import annotations

import asyncio
from typing import Any

_server: asyncio.Server | None = None


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()
    writer.close()


async def _fetch(item: str) -> str:
    """Ask the price service, which runs in the same process."""
    global _server
    if _server is None:
        _server = await asyncio.start_server(_serve, "127.0.0.1", 0, backlog=512)
    host, port = _server.sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"{item}\n".encode())
        return (await reader.readline()).decode()
    finally:
        writer.close()
        await writer.wait_closed()


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    body = await _fetch(scope["path"])
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body.encode()})
