"""WSGI: an order asks the same server for its price; or ends its process, or fails in one."""

from __future__ import annotations

import itertools
import os
import urllib.request
from typing import Any

NUMBERS = itertools.count(1)


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Serve prices and orders."""
    body = b"7"
    if environ["PATH_INFO"] == "/order":
        body = order(f"http://{environ['HTTP_HOST']}/price")
    elif environ["PATH_INFO"] == "/dies" and next(NUMBERS) == 200:
        os._exit(7)
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


def order(url: str) -> bytes:
    """Return the price for an order."""
    with urllib.request.urlopen(url) as response:
        content: bytes = response.read()
    return content
