"""The target of a load: its address and the bytes of a request."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from offload.loads import Load
from offload.loads.engine.body import content_type


@dataclass(frozen=True)
class Target:
    """The address, the TLS settings and the bytes of a request."""

    host: str
    port: int
    secure: ssl.SSLContext | None
    request: bytes


def target(load: Load) -> Target:
    """Parse a load's URL once, so that a request is a single write."""
    parts = urlsplit(load.url)
    secure = _context(load) if parts.scheme == "https" else None
    return Target(
        parts.hostname or "",
        parts.port or (443 if secure else 80),
        secure,
        _request(load, parts.netloc, parts.path, parts.query),
    )


def _request(load: Load, host: str, path: str, query: str) -> bytes:
    target = (path or "/") + (f"?{query}" if query else "")
    connection = "keep-alive" if load.keep_alive else "close"
    head = (
        f"{load.message.method} {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: builtin\r\n"
        f"Accept: */*\r\nConnection: {connection}\r\n"
    )
    if load.message.body is None:
        return f"{head}\r\n".encode()
    body = load.message.body.encode()
    kind = content_type(load.message.body)
    return f"{head}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _context(load: Load) -> ssl.SSLContext:
    """Trust the system's CAs and the one that the load or UPSTREAM_CA names."""
    context = ssl.create_default_context()
    if authority := load.ca or os.environ.get("UPSTREAM_CA"):
        context.load_verify_locations(authority)
    return context
