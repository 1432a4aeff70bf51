"""What serves the upstream's pages: its kind, its ports, and whether it answers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from tornado.httpclient import AsyncHTTPClient, HTTPClientError

ANSWER_DEADLINE = 4.0  # seconds from the start until both ports have answered
POLL = 0.02  # seconds between two questions


@dataclass(frozen=True)
class Serving:
    """A server of the pages: `ended` completes if it is a process of its own and ends."""

    kind: str
    http: int
    https: int
    ended: asyncio.Future[int] | None = None

    @property
    def urls(self) -> tuple[str, str]:
        """The addresses by HTTP and by HTTPS, without a path."""
        return f"http://127.0.0.1:{self.http}", f"https://127.0.0.1:{self.https}"


async def answers(serving: Serving, ca: Path) -> bool:
    """Wait until both ports have answered; False if it ended, or after ANSWER_DEADLINE."""
    until = time.monotonic() + ANSWER_DEADLINE
    client = AsyncHTTPClient(force_instance=True)
    try:
        for url in serving.urls:
            while not await _answered(client, f"{url}/status", ca):
                if time.monotonic() > until or (serving.ended and serving.ended.done()):
                    return False
                await asyncio.sleep(POLL)
    finally:
        client.close()
    return True


async def _answered(client: AsyncHTTPClient, url: str, ca: Path) -> bool:
    try:
        await client.fetch(url, ca_certs=str(ca), request_timeout=ANSWER_DEADLINE)
    except (OSError, HTTPClientError):  # refused, cut off, or another's certificate
        return False
    return True
