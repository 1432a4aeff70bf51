"""WSGI without a framework, with a pool of two connections. Seeded: waits_elsewhere."""

from collections.abc import Callable, Iterable
from typing import Any

import connections


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer every path with a query."""
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [connections.query().encode()]
