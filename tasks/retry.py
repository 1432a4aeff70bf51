"""Retrying: a fetch from an upstream that answers half of the tries with a 500."""

from __future__ import annotations

from offload.tasks._fetch import afetch
from offload.tasks._retry import patient
from offload.tasks._upstream import UPSTREAM_CA, UPSTREAM_HTTPS

NEEDS = ("upstream",)
SECURE_FLAKY = f"{UPSTREAM_HTTPS}/flaky"


@patient
async def network_https_async_retry() -> bytes:
    """Fetch a page over verified HTTPS, awaited, retried while the upstream answers 500."""
    return await afetch(SECURE_FLAKY, UPSTREAM_CA)
