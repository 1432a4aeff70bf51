"""Network and CPU: fetch a feed over HTTPS, then parse it with feedparser."""

from __future__ import annotations

from offload.tasks._feedparser import parse
from offload.tasks._fetch import afetch, fetch
from offload.tasks._upstream import UPSTREAM_CA, UPSTREAM_HTTPS

NEEDS = ("upstream",)
SECURE_FEED = f"{UPSTREAM_HTTPS}/feed.xml"


def network_https_cpu_bound_sync() -> bytes:
    """Fetch, parse in Python: a feed over verified HTTPS, by feedparser, in one blocking call."""
    return parse(fetch(SECURE_FEED, UPSTREAM_CA))


async def network_https_cpu_bound_async() -> bytes:
    """Fetch, parse in Python: a feed over verified HTTPS, awaited; by feedparser on the event loop."""
    return parse(await afetch(SECURE_FEED, UPSTREAM_CA))
