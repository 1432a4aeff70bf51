"""WSGI that imports an extension without support for free threading. Seeded: gil_import."""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import needs_gil  # noqa: F401 - tests/applications/test_free_threaded.py builds it


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer every path with some computation."""
    total = sum(item * item % 7 for item in range(60_000))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [hashlib.sha256(str(total).encode()).hexdigest().encode()]
