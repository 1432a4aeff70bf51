"""ASGI without a framework: a route that awaits. Seeded: nothing."""

import asyncio
from typing import Any


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer every path after 20 ms, without a lifespan."""
    assert scope["type"] == "http"
    await asyncio.sleep(0.02)
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"quote"})
