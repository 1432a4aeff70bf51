"""One fetch, blocking or awaited, over a connection of its own."""

from __future__ import annotations

import requests
from tornado.httpclient import AsyncHTTPClient

CONNECT_TIMEOUT = 3.0  # seconds
TIMEOUT = 10.0  # seconds: awaited, of the whole fetch; blocking, of the wait for any byte


def fetch(url: str, ca: str | None = None) -> bytes:
    """Fetch a URL as requests.get does, its certificate verified by `ca` or the well-known ones."""
    timeout = (CONNECT_TIMEOUT, TIMEOUT)
    response = requests.get(url, timeout=timeout, verify=True if ca is None else ca)
    response.raise_for_status()
    return response.content


async def afetch(url: str, ca: str | None = None) -> bytes:
    """Fetch a URL on this event loop, its certificate verified by `ca` or the well-known ones."""
    client = AsyncHTTPClient(force_instance=True)
    try:
        response = await client.fetch(
            url, ca_certs=ca, connect_timeout=CONNECT_TIMEOUT, request_timeout=TIMEOUT
        )
    finally:
        client.close()
    return response.body
