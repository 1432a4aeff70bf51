"""Retrying beyond this machine: the upstream fails half of the tries to fetch from the internet."""

from __future__ import annotations

from offload.tasks._fetch import afetch
from offload.tasks._retry import patient
from offload.tasks._upstream import UPSTREAM_HTTP
from offload.tasks.internet import EXTERNAL_URL

NEEDS = ("upstream", "internet")
STABLE = False
FLAKY = f"{UPSTREAM_HTTP}/flaky"


@patient
async def network_async_external_retry() -> bytes:
    """Fetch a page of the internet (EXTERNAL_URL), awaited, retried on half of the tries."""
    await afetch(FLAKY)
    return await afetch(EXTERNAL_URL)
