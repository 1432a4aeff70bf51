"""XML parsed with feedparser: work that holds the GIL."""

from __future__ import annotations

from offload.tasks._feed import FEED
from offload.tasks._feedparser import parse


def xml_feedparser_sync() -> bytes:
    """Parse a feed with feedparser, in Python, which holds the GIL."""
    return parse(FEED.read_bytes())
