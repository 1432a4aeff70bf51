"""Network and CPU: fetch a feed over HTTPS, then parse it with lxml."""

from __future__ import annotations

from offload.tasks._fetch import fetch
from offload.tasks._lxml import parse
from offload.tasks._upstream import UPSTREAM_CA, UPSTREAM_HTTPS

NEEDS = ("upstream",)
SECURE_FEED = f"{UPSTREAM_HTTPS}/feed.xml"


def network_https_cpu_bound_lxml_sync() -> bytes:
    """Fetch, parse in C: a feed over verified HTTPS, by lxml, in one blocking call."""
    return parse(fetch(SECURE_FEED, UPSTREAM_CA))
