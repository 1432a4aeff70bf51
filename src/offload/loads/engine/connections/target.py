"""The target of a load: its address and the bytes of a request."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

from offload.loads import Load, request_target


@dataclass(frozen=True)
class Target:
    """The address, the TLS settings and the bytes of a request."""

    host: str
    port: int
    secure: ssl.SSLContext | None
    request: bytes


def target(load: Load) -> Target:
    """Build the target of a load once, so that each request is a single write."""
    parts = urlsplit(load.url)
    secure = _context(load) if parts.scheme == "https" else None
    return Target(
        parts.hostname or "",
        parts.port or (443 if secure else 80),
        secure,
        _request(load, parts.netloc, request_target(parts)),
    )


def _request(load: Load, host: str, target: str) -> bytes:
    connection = "keep-alive" if load.keep_alive else "close"
    message = load.message
    own = [f"Host: {host}", f"Connection: {connection}"]
    defaults = {"User-Agent": "builtin", "Accept": "*/*"}
    own += [f"{name}: {value}" for name, value in defaults.items() if not message.header(name)]
    if message.content_type is not None:
        own.append(f"Content-Type: {message.content_type}")
    body = b"" if message.body is None else message.body.encode()
    if message.body is not None:
        own.append(f"Content-Length: {len(body)}")
    head = [f"{message.method} {target} HTTP/1.1", *own, *message.lines, "", ""]
    return "\r\n".join(head).encode() + body


def _context(load: Load) -> ssl.SSLContext:
    """Return TLS settings that trust the system's CAs and that of the load or of UPSTREAM_CA."""
    context = ssl.create_default_context()
    if authority := load.ca or os.environ.get("UPSTREAM_CA"):
        context.load_verify_locations(authority)
    return context
