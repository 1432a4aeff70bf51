"""The network with latency: the page of network.py from a service that takes 20 or 100 ms."""

from __future__ import annotations

from offload.tasks._fetch import afetch, fetch
from offload.tasks._upstream import UPSTREAM_HTTP

NEEDS = ("upstream",)
PAGE_20MS = f"{UPSTREAM_HTTP}/wait?seconds=0.02&page=page.html"
PAGE_100MS = f"{UPSTREAM_HTTP}/wait?seconds=0.1&page=page.html"


def network_sync_20ms() -> bytes:
    """Fetch over HTTP: a page from a service that takes 20 ms, in one blocking call."""
    return fetch(PAGE_20MS)


async def network_async_20ms() -> bytes:
    """Fetch over HTTP: a page from a service that takes 20 ms, awaited."""
    return await afetch(PAGE_20MS)


def network_sync_100ms() -> bytes:
    """Fetch over HTTP: a page from a service that takes 100 ms, in one blocking call."""
    return fetch(PAGE_100MS)


async def network_async_100ms() -> bytes:
    """Fetch over HTTP: a page from a service that takes 100 ms, awaited."""
    return await afetch(PAGE_100MS)
