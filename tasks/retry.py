"""Retries: fetch from an upstream that returns 500 for half of the tries."""

from __future__ import annotations

from offload.tasks._fetch import afetch
from offload.tasks._retry import retry_transient
from offload.tasks._upstream import UPSTREAM_CA, UPSTREAM_HTTPS

NEEDS = ("upstream",)
SECURE_FLAKY = f"{UPSTREAM_HTTPS}/flaky"


@retry_transient
async def network_https_async_retry() -> bytes:
    """Fetch and retry: a page over verified HTTPS, awaited, while the upstream returns 500."""
    return await afetch(SECURE_FLAKY, UPSTREAM_CA)
