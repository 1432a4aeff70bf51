"""ASGI without a framework: an upstream that is slower, the more requests it has at once.

Seeded: unexplained. No rule knows it: its time is not twice that of a single request.
"""

import asyncio
from typing import Any

ALONE_S, AT_ONCE = 0.03, 15  # s, and requests from which it slows down

inside = 0


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer every path after a request to the upstream."""
    global inside
    assert scope["type"] == "http"
    inside += 1
    try:
        await asyncio.sleep(ALONE_S * max(1.0, inside / AT_ONCE))
    finally:
        inside -= 1
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"quote"})
