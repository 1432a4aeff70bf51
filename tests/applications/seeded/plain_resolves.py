"""ASGI without a framework: names are resolved in asyncio's default executor, in 60 ms.

Seeded: default_executor, by DNS.
"""

import asyncio
import socket
import time
from typing import Any


def getaddrinfo(*_: Any, **__: Any) -> list[Any]:
    """Resolve as slowly as a distant server."""
    time.sleep(0.06)
    return []


socket.getaddrinfo = getaddrinfo  # type: ignore[assignment]


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer every path once the name of another server is resolved."""
    if scope["type"] != "http":
        return
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, socket.getaddrinfo, "prices.example", 443)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"quote"})
