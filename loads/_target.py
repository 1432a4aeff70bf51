"""The target of a load: where it is, and the bytes that ask it."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from loads import Load


@dataclass(frozen=True)
class Target:
    """Where requests go, what is sent, and by which authorities the answerer is verified."""

    host: str
    port: int
    secure: ssl.SSLContext | None
    request: bytes


def target(load: Load) -> Target:
    """Read a load's URL once, so that a request costs one write."""
    parts = urlsplit(load.url)
    secure = _context() if parts.scheme == "https" else None
    return Target(
        parts.hostname or "",
        parts.port or (443 if secure else 80),
        secure,
        _request(load, parts.netloc, parts.path, parts.query),
    )


def _request(load: Load, host: str, path: str, query: str) -> bytes:
    target = (path or "/") + (f"?{query}" if query else "")
    connection = "keep-alive" if load.keep_alive else "close"
    return (
        f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: builtin\r\nAccept: */*\r\n"
        f"Connection: {connection}\r\n\r\n"
    ).encode()


def _context() -> ssl.SSLContext:
    """Verify against the system's authorities and, when UPSTREAM_CA names one, the upstream's."""
    context = ssl.create_default_context()
    if authority := os.environ.get("UPSTREAM_CA"):
        context.load_verify_locations(authority)
    return context
