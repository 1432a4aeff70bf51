"""Retries over the internet: the upstream fails half of the tries, then a page is fetched."""

from __future__ import annotations

from offload.tasks._fetch import afetch
from offload.tasks._retry import retry_transient
from offload.tasks._upstream import UPSTREAM_HTTP
from offload.tasks.internet import EXTERNAL_URL

NEEDS = ("upstream", "internet")
STABLE = False
FLAKY = f"{UPSTREAM_HTTP}/flaky"


@retry_transient
async def network_async_external_retry() -> bytes:
    """Fetch and retry: EXTERNAL_URL of the internet, awaited; half of the tries are retried."""
    await afetch(FLAKY)
    return await afetch(EXTERNAL_URL)
