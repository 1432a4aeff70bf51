"""The feed that parsing tasks parse, and their result."""

from __future__ import annotations

from offload.registry import places

FEED = places.PACKAGE / "upstream" / "www" / "feed.xml"


def result(items: int, title: str) -> bytes:
    """Return the result for a feed, which is the same for every parser."""
    return f"{items} items, the first is {title!r}\n".encode()
