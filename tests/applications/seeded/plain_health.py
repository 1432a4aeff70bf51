"""ASGI without a framework: every path blocks the event loop, except that of the health check."""

import time
from typing import Any


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer every path, as an application without routing does."""
    assert scope["type"] == "http"
    is_check = scope["path"] == "/readyz"
    if not is_check:
        time.sleep(0.08)
    await answer(send, b"ready" if is_check else b"quote of " + scope["path"].encode())


async def answers_all(scope: Any, receive: Any, send: Any) -> None:
    """Answer every path alike: none of them is a health check."""
    assert scope["type"] == "http"
    await answer(send, b"you asked for " + scope["path"].encode())


async def answer(send: Any, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
