"""The internet: fetch external pages, whose URLs are environment variables."""

from __future__ import annotations

import os

from offload.tasks._fetch import afetch, fetch

NEEDS = ("internet",)
STABLE = False
GOOGLE_URL = os.environ.get("GOOGLE_URL", "https://www.google.com/")
EXTERNAL_URL = os.environ.get("EXTERNAL_URL", "https://example.com/")


def network_sync_google() -> bytes:
    """Fetch google.com: or GOOGLE_URL, in one blocking call."""
    return fetch(GOOGLE_URL)


def network_sync_external() -> bytes:
    """Fetch from the internet: EXTERNAL_URL, in one blocking call."""
    return fetch(EXTERNAL_URL)


async def network_async_external() -> bytes:
    """Fetch from the internet: EXTERNAL_URL, awaited."""
    return await afetch(EXTERNAL_URL)
