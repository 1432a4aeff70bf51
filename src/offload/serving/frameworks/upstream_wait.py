"""Fetch from the upstream with requests, which blocks the thread for the requested time."""

from __future__ import annotations

import requests

from offload.tasks._upstream import UPSTREAM_HTTP

URL = f"{UPSTREAM_HTTP}/wait"
TIMEOUT = 30.0  # s


def fetch(seconds: float) -> str:
    """Fetch over a new connection, as requests.get does; the upstream responds after `seconds`."""
    response = requests.get(URL, {"seconds": str(seconds)}, timeout=TIMEOUT)
    response.raise_for_status()
    return response.text
