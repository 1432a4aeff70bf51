"""ASGI: quotes from threads; some calls hang after the timeout of their request, or none do."""

from __future__ import annotations

import asyncio
import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

FETCHERS, ALL = ThreadPoolExecutor(3), asyncio.Lock()
NUMBERS = itertools.count(1)


def fetch(hangs: bool) -> None:
    """Fetch a quote; every 25th takes long."""
    time.sleep(20 if hangs and next(NUMBERS) % 25 == 0 else 0.005)


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Serve quotes."""
    if scope["type"] == "lifespan":
        assert (await receive())["type"] == "lifespan.startup"
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        await send({"type": "lifespan.shutdown.complete"})
        return
    status = 200
    if scope["path"] == "/locked":
        await never_released()
    else:
        loop = asyncio.get_running_loop()
        call = loop.run_in_executor(FETCHERS, fetch, scope["path"] != "/works")
        try:
            await asyncio.wait_for(call, 0.25)
        except TimeoutError:  # or the last known quotes
            status = 504 if scope["path"] == "/hangs" else 200
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


async def never_released() -> None:
    """Take a lock that nobody releases after a hundred requests."""
    await ALL.acquire()
    if next(NUMBERS) < 100:
        ALL.release()
