"""The target in the request line: usually a path, but a client may send a URL, as to a proxy."""

from __future__ import annotations

import re

_ABSOLUTE = re.compile(r"http://([^/?#]+)(.*)", re.IGNORECASE)


def split(target: str) -> tuple[str, str | None]:
    """Return the path with its query, and the host if the target is a URL.

    That host replaces the one in the Host header (RFC 9112, 3.2.2).

    >>> split("http://localhost:8888?a=b")
    ('/?a=b', 'localhost:8888')
    """
    found = None if target.startswith("/") else _ABSOLUTE.fullmatch(target)
    if found is None:
        return target, None
    host, path = found.groups()
    return path if path.startswith("/") else f"/{path}", host
