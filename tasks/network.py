"""The network: fetch one page of 5 KB from the upstream on this machine."""

from __future__ import annotations

from offload.tasks._fetch import afetch, fetch
from offload.tasks._upstream import UPSTREAM_CA, UPSTREAM_HTTP, UPSTREAM_HTTPS

NEEDS = ("upstream",)
PAGE = f"{UPSTREAM_HTTP}/page.html"
SECURE_PAGE = f"{UPSTREAM_HTTPS}/page.html"


def network_sync_local() -> bytes:
    """Fetch over HTTP: a page from this machine, in one blocking call."""
    return fetch(PAGE)


network_sync = network_sync_local


async def network_async_local() -> bytes:
    """Fetch over HTTP: a page from this machine, awaited."""
    return await afetch(PAGE)


def network_https_sync() -> bytes:
    """Fetch over HTTPS: a page, verified, in one blocking call."""
    return fetch(SECURE_PAGE, UPSTREAM_CA)


async def network_https_async() -> bytes:
    """Fetch over HTTPS: a page, verified, awaited."""
    return await afetch(SECURE_PAGE, UPSTREAM_CA)
