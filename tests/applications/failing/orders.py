"""WSGI: an order asks its own server for a price, ends its process, reads all orders or breaks."""

from __future__ import annotations

import itertools
import logging
import os
import urllib.request
from typing import Any

NUMBERS = itertools.count(1)
LINES: list[str] = []


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """Serve prices and orders."""
    body = b"7"
    if environ["PATH_INFO"] == "/order":
        body = order(f"http://{environ['HTTP_HOST']}/price")
    elif environ["PATH_INFO"] == "/dies" and next(NUMBERS) == 200:
        os._exit(7)
    elif environ["PATH_INFO"] == "/reads":
        LINES.append("an order and its price\n" * 100)
        body = str(sum(map(len, map(str.split, LINES)))).encode()
    elif environ["PATH_INFO"] == "/breaks" and next(NUMBERS) > 200:
        return refuse(start_response)
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


def refuse(start_response: Any) -> list[bytes]:
    """Respond with 500 as an application does that handles its errors."""
    try:
        raise ConnectionError("the connection is broken since an earlier error")
    except ConnectionError:
        logging.getLogger("orders").error("not saved")  # noqa: TRY400 - without its traceback
    start_response("500 Internal Server Error", [("Content-Length", "9")])
    return [b"not saved"]


def order(url: str) -> bytes:
    """Return the price for an order."""
    with urllib.request.urlopen(url) as response:
        content: bytes = response.read()
    return content
