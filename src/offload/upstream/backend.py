"""The backend that serves the upstream's pages: its kind, its ports and its readiness."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from tornado.httpclient import AsyncHTTPClient, HTTPClientError

RESPONSE_DEADLINE = 4.0  # seconds from the start until both ports have responded
POLL = 0.02  # seconds between two requests


@dataclass(frozen=True)
class Backend:
    """A server of the pages; `ended` completes when its separate process ends."""

    kind: str
    http: int
    https: int
    ended: asyncio.Future[int] | None = None

    @property
    def urls(self) -> tuple[str, str]:
        """The HTTP and the HTTPS address, without a path."""
        return f"http://127.0.0.1:{self.http}", f"https://127.0.0.1:{self.https}"


async def is_ready(serving: Backend, ca: Path) -> bool:
    """Wait until both ports have responded; False if the server ended, or after the deadline."""
    until = time.monotonic() + RESPONSE_DEADLINE
    client = AsyncHTTPClient(force_instance=True)
    try:
        for url in serving.urls:
            while not await _responds(client, f"{url}/status", ca):
                if time.monotonic() > until or (serving.ended and serving.ended.done()):
                    return False
                await asyncio.sleep(POLL)
    finally:
        client.close()
    return True


async def _responds(client: AsyncHTTPClient, url: str, ca: Path) -> bool:
    try:
        await client.fetch(url, ca_certs=str(ca), request_timeout=RESPONSE_DEADLINE)
    except (OSError, HTTPClientError):  # refused, reset, or another server's certificate
        return False
    return True
